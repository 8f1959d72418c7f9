import { ServerClosing } from './call.ts';
import type { Call, Implementation, Notification, ProtocolLogLevel, RequestId, Revision, WebRequest } from './call.ts';
import type { Belonging } from './beginning.ts';
import { attributes, capabilitiesOf, clientOf } from './handshake.ts';
import type { Cancellable } from './live.ts';
import type { Open } from './open.ts';
import { codes, encodeError, encodeResult, failureOf, isMembers } from './rpc.ts';
import type { Failure, Members, RpcRequest } from './rpc.ts';
import { capabilitiesIn, clientIn, logLevelOf, toLogLevel } from './revisions/r2026-07-28.ts';
import type { Json, Scope, Session, Sessions } from './session.ts';

/** Takes what is sent for a call: the answer to one POST, or the one output of stdio. */
export interface Outlet {
  /** Runs `listener` if the reader goes before the response. */
  onLost(listener: () => void): void;
  /** Sends a message ahead of the response. */
  send(json: string): void;
  /** Hears the id of a question before it is sent. */
  asks?(questionId: string): void;
  /** Sends the response. Status and headers are those of HTTP. */
  respond(json: string, status?: number, headers?: Readonly<Record<string, string>>): void;
  /** Ends the connection alone, where the client can come back for the rest, after `retry` milliseconds. */
  disconnect?(retry: number | undefined): boolean;
  /** There is no response. */
  skip(): void;
  /** Shows a sign of life. */
  tick(): void;
}

/** What the calls of one HTTP request have in common. */
export interface Surroundings extends Belonging {
  readonly sessions: Sessions;
  readonly serverInfo: Implementation;
}

// No 404: that would say that nothing was done, and clients send such a request again in a new session.
const sessionEnded: Failure = { status: 200, code: codes.internal, message: 'The session ended while the call ran' };
const closing: Failure = {
  status: 503,
  code: codes.internal,
  message: 'The server is closing',
  headers: { 'Retry-After': '1' },
};

/** A request on its way through the dispatcher, and the one place that its answer comes from. */
export class RunningCall implements Call, Cancellable, Open {
  readonly id: RequestId;
  readonly method: string;
  readonly params: Members;
  readonly logLevel: ProtocolLogLevel | undefined;
  readonly #surroundings: Surroundings;
  readonly #answer: Outlet;
  #over = false;
  #watching = false;
  #abort: AbortController | undefined;

  /** Throws `Refusal` if the request asks for something that does not exist. */
  constructor(message: RpcRequest, surroundings: Surroundings, answer: Outlet) {
    this.id = message.id;
    this.method = message.method;
    this.params = message.params;
    this.#surroundings = surroundings;
    this.#answer = answer;
    this.logLevel = surroundings.wire.logLevelByRequest
      ? logLevelOf(message)
      : toLogLevel(surroundings.session?.attribute(attributes.logLevel));
  }

  get revision(): Revision {
    return this.#surroundings.wire.revision;
  }

  get session(): Session | null {
    return this.#surroundings.session;
  }

  get sessions(): Sessions {
    return this.#surroundings.sessions;
  }

  get scope(): Scope {
    return this.#surroundings.scope;
  }

  get request(): WebRequest {
    return this.#surroundings.request;
  }

  get canPush(): boolean {
    return this.#surroundings.wire.pushes && this.#surroundings.session !== null;
  }

  get clientInfo(): Implementation | undefined {
    const { session } = this.#surroundings;
    return session === null ? clientIn(this.params) : clientOf(session);
  }

  get clientCapabilities(): Members {
    const { session } = this.#surroundings;
    return session === null ? capabilitiesIn(this.params) : capabilitiesOf(session);
  }

  get progressToken(): string | number | undefined {
    const token = this.#meta('progressToken');
    return typeof token === 'string' || typeof token === 'number' ? token : undefined;
  }

  // Made only for a handler that looks: most calls are over before anybody could cancel them.
  get signal(): AbortSignal {
    if (this.#abort !== undefined) return this.#abort.signal;
    this.#abort = new AbortController();
    if (this.#over) this.#abort.abort();
    else this.#watch();
    return this.#abort.signal;
  }

  notify(notification: Notification): void {
    if (this.#over) return;
    const { method, params } = notification;
    this.#answer.send(JSON.stringify({ jsonrpc: '2.0', method, params }));
  }

  push(id: string, method: string, params: { readonly [name: string]: Json }): void {
    if (this.#over) return;
    this.#answer.asks?.(id);
    this.#answer.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
  }

  closeStream(retry?: number): boolean {
    return !this.#over && (this.#answer.disconnect?.(retry) ?? false);
  }

  /** Answers with a result, unless the call was stopped before. */
  succeed(result: Members): void {
    if (this.#over) return;
    const { wire, serverInfo } = this.#surroundings;
    const json = encodeResult(this.id, wire.complete(this.method, result, serverInfo));
    this.#over = true;
    this.#answer.respond(json);
  }

  /** Answers with an error, unless the call was stopped before. Returns whether it is a bug. */
  fail(error: unknown): boolean {
    const failure = failureOf(error);
    if (!this.#over) {
      this.#over = true;
      this.#respond(failure);
    }
    return failure.bug ?? false;
  }

  /** The client took its request back: no response. */
  cancel(): void {
    this.#stop(undefined);
  }

  endSession(): void {
    this.#stop(sessionEnded);
  }

  tick(): void {
    this.#watch();
    this.#answer.tick();
  }

  drain(): void {
    // It may finish.
  }

  abort(): void {
    this.#stop(closing);
  }

  /** Stops, with a failure for an answer or without one. */
  #stop(failure: Failure | undefined): void {
    if (this.#over) return;
    this.#over = true;
    if (failure === undefined) this.#answer.skip();
    else this.#respond(failure);
    this.#abort?.abort(failure === closing ? new ServerClosing() : undefined);
  }

  #respond({ status, code, message, data, headers }: Failure): void {
    const { wire } = this.#surroundings;
    const known = code === codes.resourceNotFound ? wire.resourceNotFound : code;
    const json = encodeError(this.id, known, message, data);
    this.#answer.respond(json, status === 200 ? (wire.statuses.get(known) ?? 200) : status, headers);
  }

  /** Listens for the end of the connection where that cancels. */
  #watch(): void {
    if (this.#watching || this.#over) return;
    this.#watching = true;
    const { session, wire, request } = this.#surroundings;
    // Without a session nobody could come back for the result, nor cancel in any other way.
    if (!wire.disconnectCancels && session !== null) return;
    if (request.signal.aborted) this.cancel();
    else request.signal.addEventListener('abort', () => this.cancel(), { once: true });
    this.#answer.onLost(() => this.cancel());
  }

  #meta(key: string): Json | undefined {
    const meta = this.params['_meta'];
    return isMembers(meta) ? meta[key] : undefined;
  }
}
