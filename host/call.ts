import type { Json, Scope, Session, Sessions } from './session.ts';

/** A protocol revision, a date. */
export type Revision = '2025-03-26' | '2025-06-18' | '2025-11-25' | '2026-07-28';

/**
 * What an HTTP request is to this host: the part of the Web `Request` that it reads. A real `Request` is one; the Node
 * shell passes one that is cheaper to make.
 */
export interface WebRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null; has(name: string): boolean };
  /** The body as text, read at most once. Rejects if it is not UTF-8 or larger than the limit. */
  text(): Promise<string>;
  /** Aborted when the client goes away. */
  readonly signal: AbortSignal;
}

/** The name and version of a program, as it says itself. */
export interface Implementation {
  readonly name: string;
  readonly version: string;
  readonly [more: string]: Json | undefined;
}

/** The severities of RFC 5424, least first. */
export const logLevels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;
export type ProtocolLogLevel = (typeof logLevels)[number];

export type RequestId = string | number;

export interface Notification {
  readonly method: string;
  readonly params?: { readonly [name: string]: Json };
}

/**
 * One client request, as the transport hands it to the dispatcher: everything about it that does not depend on HTTP or
 * stdio. The transport makes it, the dispatcher wraps it into the exchange that a handler sees.
 */
export interface Call {
  readonly id: RequestId;
  readonly method: string;
  /** The `params` member, `{}` if absent. */
  readonly params: { readonly [name: string]: Json };
  readonly revision: Revision;
  /** The session the request names, or `null` where there is none (2026-07-28, stateless mode, stdio before a handshake). */
  readonly session: Session | null;
  readonly sessions: Sessions;
  readonly scope: Scope;
  readonly clientInfo: Implementation | undefined;
  readonly clientCapabilities: { readonly [name: string]: Json };
  /** From `params._meta.progressToken`, with its JSON type; `undefined` if the client gave none. */
  readonly progressToken: string | number | undefined;
  /** The least severity this client wants to hear on this call, or `undefined` for none (rules of the revision applied). */
  readonly logLevel: ProtocolLogLevel | undefined;
  readonly request: WebRequest;
  /**
   * Aborted on cancellation by the rules of the revision, on the end of the session, and on shutdown, then with
   * {@link ServerClosing} for a reason.
   */
  readonly signal: AbortSignal;
  /**
   * Whether a server-to-client request can be pushed on this call's stream (2025-06-18 and 2025-11-25 with a session).
   * Otherwise questions are put as an `input_required` result (2026-07-28), or not at all.
   */
  readonly canPush: boolean;
  /** Sends a notification on this call's own stream; the first one turns a JSON answer into a stream. */
  notify(notification: Notification): void;
  /** Sends a JSON-RPC request on this call's own stream. The caller has stored the question under `id` before. */
  push(id: string, method: string, params: { readonly [name: string]: Json }): void;
  /**
   * Ends the connection of this call's stream, and nothing else: the client comes back for what follows, after `retry`
   * milliseconds (2025-11-25, Streamable HTTP, polling). Returns whether it will; where it cannot, nothing happens.
   */
  closeStream(retry?: number): boolean;
}

/** Why the signal of a call is aborted when the server closes: its client did not give it up, and may call again. */
export class ServerClosing extends Error {
  constructor() {
    super('the server is closing');
    this.name = 'AbortError';
  }
}

/** A failure with a JSON-RPC code of its own, answered as an error response. */
export class RpcError extends Error {
  readonly code: number;
  readonly data: Json | undefined;

  constructor(code: number, message: string, data?: Json, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RpcError';
    this.code = code;
    this.data = data;
  }
}

/** What the dispatcher offers to a transport. */
export interface Dispatch {
  /**
   * The result of a request, without the members that only one revision adds (`resultType` other than `input_required`,
   * `_meta` server info, cache hints): the revision adds those. Rejects with `RpcError` for an error response and with
   * `BucketError` when the store failed; every other rejection is a bug and answered `-32603` without details.
   */
  request(call: Call): Promise<{ readonly [name: string]: Json }>;
  /** `serverInfo`, `instructions` and the capabilities for a client of that revision. `streams`: whether it can be told of changes. */
  describe(
    revision: Revision,
    streams: boolean,
  ): {
    readonly serverInfo: Implementation;
    readonly capabilities: { readonly [name: string]: Json };
    readonly instructions?: string;
  };
  /** Whether this server implements the method for that revision (otherwise `-32601`). */
  implements(method: string, revision: Revision): boolean;
}
