import type { RequestId, WebRequest } from './call.ts';
import { type Keeping, KeptStream } from './kept-stream.ts';
import { type Log, traceOf } from './log.ts';
import { encodeError, failureOf } from './rpc.ts';
import { EventStream } from './sse.ts';

/** What a request is answered with, before a shell makes it the bytes of its platform. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | EventStream | undefined;
}

const jsonHeaders = { 'Content-Type': 'application/json' };
const streamHeaders = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-store, no-transform',
  'X-Accel-Buffering': 'no',
};

/** How many signs of life a call lets pass before it gives up answering in JSON and opens its stream. */
const patience = 2;

/** An answer in JSON. */
export function jsonReply(status: number, body: string, sessionId?: string): Reply {
  const headers = sessionId === undefined ? jsonHeaders : { ...jsonHeaders, 'Mcp-Session-Id': sessionId };
  return { status, headers, body };
}

/** An answer in events. */
export function streamReply(stream: EventStream, sessionId?: string): Reply {
  const headers = sessionId === undefined ? streamHeaders : { ...streamHeaders, 'Mcp-Session-Id': sessionId };
  return { status: 200, headers, body: stream };
}

/** The answer to a request that failed before it became a call. */
export function failedReply(
  error: unknown,
  id: RequestId | undefined,
  method: string,
  log: Log,
  request: WebRequest,
): Reply {
  const failure = failureOf(error);
  if (failure.bug) logBug(log, method, error, request);
  const reply = jsonReply(failure.status, encodeError(id, failure.code, failure.message, failure.data));
  return failure.headers === undefined ? reply : { ...reply, headers: { ...reply.headers, ...failure.headers } };
}

/** Reports what should not have happened. The client hears no details. */
export function logBug(log: Log, method: string, error: unknown, request?: WebRequest): void {
  let trace = traceOf(error);
  // A hook may have said what it was given.
  for (const secret of request === undefined ? [] : secretsOf(request)) trace = trace.replaceAll(secret, '[secret]');
  log('error', 'request failed', { method: method.slice(0, 100), error: trace });
}

/** What a request brought that belongs into no log: credentials, ids, its query. */
function secretsOf({ headers, url }: WebRequest): string[] {
  const credentials = headers.get('authorization') ?? '';
  const token = credentials.slice(credentials.indexOf(' ') + 1);
  const query = url.slice(url.indexOf('?') + 1 || url.length);
  const found = [token, headers.get('cookie'), headers.get('mcp-session-id'), query, decoded(query)];
  // What is shorter is part of ordinary words, and no secret.
  return found.filter((secret) => secret !== null && secret.length > 3) as string[];
}

function decoded(query: string): string {
  try {
    return decodeURIComponent(query);
  } catch (error) {
    if (error instanceof URIError) return '';
    throw error;
  }
}

/**
 * The answer to one POST that holds requests: JSON if nothing has to be sent before the last response, and otherwise a
 * stream. Its status is settled by its first byte.
 */
export class Answer {
  /** Resolves when it is known how the answer begins. */
  readonly reply: Promise<Reply>;
  #resolve: ((reply: Reply) => void) | undefined;
  readonly #sessionId: string | undefined;
  readonly #batch: boolean;
  readonly #keeping: Keeping | undefined;
  #waiting: number;
  #responses: string[] = [];
  #stream: EventStream | KeptStream | undefined;
  #silence = 0;
  #lost: (() => void) | undefined;

  /**
   * `requests`: how many; `undefined` for a single one that is no batch. With `keeping` the client may lose the stream and
   * come back for the rest of it.
   */
  constructor(sessionId: string | undefined, requests: number | undefined, keeping?: Keeping) {
    this.#sessionId = sessionId;
    this.#keeping = keeping;
    this.#batch = requests !== undefined;
    this.#waiting = requests ?? 1;
    this.reply = new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  /** Runs `listener` if the stream's reader goes before the last response. */
  onLost(listener: () => void): void {
    this.#lost = listener;
  }

  /** Sends a message ahead of the response. Returns whether a reader is there to take it. */
  send(json: string): boolean {
    return this.#waiting > 0 && this.#open().send(json);
  }

  /** Sends the response of one request. Status and headers count only if nothing was sent before, and for no batch. */
  respond(json: string, status = 200, headers?: Readonly<Record<string, string>>): void {
    this.#waiting -= 1;
    if (this.#stream !== undefined) {
      this.#stream.send(json);
    } else if (this.#batch) {
      this.#responses.push(json);
    } else {
      const reply = jsonReply(status, json, status < 400 ? this.#sessionId : undefined);
      this.#resolve?.(headers === undefined ? reply : { ...reply, headers: { ...reply.headers, ...headers } });
      return;
    }
    if (this.#waiting === 0) this.#finish();
  }

  /** One request gets no response. */
  skip(): void {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#finish();
  }

  /** Ends the connection alone, where the client can come back for the rest, after `retry` milliseconds. */
  disconnect(retry?: number): boolean {
    if (this.#waiting === 0 || this.#keeping?.primes !== true) return false;
    const stream = this.#open();
    return stream instanceof KeptStream && stream.disconnect(retry);
  }

  /** Shows a sign of life. A silent call opens its stream for it, lest a proxy give up. */
  tick(): void {
    if (this.#waiting === 0) return;
    this.#silence += 1;
    if (this.#stream !== undefined || this.#silence >= patience) this.#open().comment();
  }

  #open(): EventStream | KeptStream {
    if (this.#stream !== undefined) return this.#stream;
    const connection = new EventStream();
    const reply = streamReply(connection, this.#sessionId);
    const stream = this.#keeping === undefined ? connection : new KeptStream(connection, this.#keeping);
    this.#stream = stream;
    for (const json of this.#responses) stream.send(json);
    connection.onClose(() => {
      if (this.#waiting > 0) this.#lost?.();
    });
    // An id must not arrive before every process knows what it names.
    if (stream instanceof KeptStream) void stream.known.then(() => this.#resolve?.(reply));
    else this.#resolve?.(reply);
    return stream;
  }

  #finish(): void {
    if (this.#stream === undefined && this.#responses.length > 0) {
      this.#resolve?.(jsonReply(200, `[${this.#responses.join(',')}]`, this.#sessionId));
    } else {
      // No response at all is a stream that ends: JSON would have to hold something.
      this.#open().end();
    }
  }
}
