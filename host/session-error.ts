/**
 * Why a session refused something.
 *
 * - `gone`: it expired or was deleted
 * - `terminated`: it was terminated; the message says why
 * - `limit`: a limit is exceeded
 * - `invalid`: an argument is wrong
 * - `no-such-question`, `misfit`: an answer was refused
 * - `other-call`, `redeemed`: a request state was refused
 */
export type SessionErrorCode =
  | 'gone'
  | 'terminated'
  | 'limit'
  | 'invalid'
  | 'no-such-question'
  | 'misfit'
  | 'other-call'
  | 'redeemed';

/** A session refused something; nothing was written. The message holds no id, no key and no value. */
export class SessionError extends Error {
  readonly code: SessionErrorCode;

  constructor(code: SessionErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SessionError';
    this.code = code;
  }
}

/** A refusal of the core, as this host throws it. `unreadable` is a fault of what is stored, not of the caller. */
export function sessionErrorOf(refusal: { tag: string; val?: unknown }): Error {
  const text = typeof refusal.val === 'string' ? refusal.val : '';
  switch (refusal.tag) {
    case 'expired':
    case 'deleted':
    case 'foreign':
      return new SessionError('gone', 'the session is gone: it expired or was deleted');
    case 'terminated':
      return new SessionError('terminated', `the session was terminated${text && `: ${text}`}`);
    case 'no-such-question':
      return new SessionError('no-such-question', 'there is no such open question');
    case 'other-call':
      return new SessionError('other-call', 'the request state belongs to another call');
    case 'redeemed':
      return new SessionError('redeemed', 'the request state was redeemed before');
    case 'limit':
    case 'invalid':
    case 'misfit':
      return new SessionError(refusal.tag, text);
    default:
      return new Error(`the stored session cannot be used: ${text || refusal.tag}`);
  }
}
