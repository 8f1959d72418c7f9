import type { SessionError } from 'mcp:session/sessions@0.1.0';
import type { Refusal } from 'mcp:session/transitions@0.1.0';
import { isRefusal } from './record.ts';

/** What a failed import throws: not an `Error`, but an object that holds the declared error. */
function payloadOf(thrown: unknown): unknown {
  return typeof thrown === 'object' && thrown !== null && 'payload' in thrown ? thrown.payload : undefined;
}

function isTagged(value: unknown): value is { tag: string; val?: unknown } {
  return typeof value === 'object' && value !== null && 'tag' in value && typeof value.tag === 'string';
}

/** Why a swap did not happen: the payload of the error that `atomics.swap` throws, or `undefined` if it is none. */
export function casErrorOf(thrown: unknown): { tag: string; val?: unknown } | undefined {
  const payload = payloadOf(thrown);
  return isTagged(payload) && (payload.tag === 'cas-failed' || payload.tag === 'store-error') ? payload : undefined;
}

/** An error that already is what `sessions` declares. */
export class Declared {
  readonly error: SessionError;

  constructor(error: SessionError) {
    this.error = error;
  }
}

/** The stream error of a failed write, or `undefined` if it is none. */
export function streamErrorOf(thrown: unknown): SessionError | undefined {
  const payload = payloadOf(thrown);
  if (!isTagged(payload)) return undefined;
  if (payload.tag !== 'closed' && payload.tag !== 'last-operation-failed') return undefined;
  return { tag: 'io', val: payload } as SessionError;
}

/** The declared error for anything that was thrown while a call of `sessions` ran. */
export function sessionErrorOf(thrown: unknown): SessionError {
  if (thrown instanceof Declared) return thrown.error;
  if (isRefusal(thrown)) return ofRefusal(thrown);
  const payload = payloadOf(thrown);
  if (isTagged(payload)) {
    if (payload.tag === 'store-error') return { tag: 'store', val: payload.val } as SessionError;
    return { tag: 'store', val: payload } as SessionError;
  }
  return { tag: 'unexpected', val: `a fault in the component: ${thrown}` };
}

function ofRefusal(refusal: Refusal): SessionError {
  switch (refusal.tag) {
    case 'expired':
    case 'deleted':
    case 'foreign':
      return { tag: 'no-such-session' };
    case 'terminated': {
      const why = refusal.val == null ? '' : `: ${refusal.val}`;
      return { tag: 'unexpected', val: `the session was terminated${why}` };
    }
    case 'no-such-question':
      return { tag: 'unexpected', val: 'there is no such open question' };
    case 'other-call':
    case 'redeemed':
      return { tag: 'unexpected', val: 'the request state cannot be redeemed' };
    default:
      return { tag: 'unexpected', val: refusal.val };
  }
}
