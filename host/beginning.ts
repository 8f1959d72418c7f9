import type { Implementation, Revision, WebRequest } from './call.ts';
import { capabilitiesOf, clientOf } from './handshake.ts';
import type { Members } from './rpc.ts';
import { capabilitiesIn, clientIn } from './revisions/r2026-07-28.ts';
import type { Wire } from './revisions/revision.ts';
import type { Scope, Session } from './session.ts';

/** A session that begins, or a request that has none. */
export interface Beginning {
  /** The new session, to be given its first values; `null` where there is none: 2026-07-28, `stateless`. */
  readonly session: Session | null;
  readonly revision: Revision;
  /** What the client says it is; no proof of who it is. */
  readonly clientInfo: Implementation | undefined;
  readonly clientCapabilities: Members;
  /** The verified principal; `undefined` where nobody is verified. */
  readonly owner: string | undefined;
  readonly request: WebRequest;
}

/**
 * Runs once for a session, before its client learns the id, and once for a request that has none, before its handler. What
 * it throws refuses either: an `RpcError` as it is, and nothing of the session stays behind.
 */
export type BeginHook = (beginning: Beginning) => Promise<void> | void;

/** What a message was found to belong to. */
export interface Belonging {
  readonly wire: Wire;
  readonly request: WebRequest;
  readonly scope: Scope;
  readonly session: Session | null;
}

/** What the hook hears of a message with these `params`. */
export function beginningOf({ wire, request, scope, session }: Belonging, params: Members): Beginning {
  return {
    session,
    revision: wire.revision,
    clientInfo: session === null ? clientIn(params) : clientOf(session),
    clientCapabilities: session === null ? capabilitiesIn(params) : capabilitiesOf(session),
    owner: scope.owner,
    request,
  };
}
