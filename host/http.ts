import { failedReply, jsonReply } from './answer.ts';
import type { Reply } from './answer.ts';
import type { BeginHook } from './beginning.ts';
import type { Dispatch, WebRequest } from './call.ts';
import { defaults } from './config.ts';
import { Guard } from './guard.ts';
import type { GuardOptions } from './guard.ts';
import type { Hub } from './hub.ts';
import type { Log } from './log.ts';
import { codes, encodeError, Refusal } from './rpc.ts';
import type { Mode } from './revisions/all.ts';
import { Serving } from './serving.ts';
import type { Scope, Sessions } from './session.ts';

/** Who stands behind a request. */
export interface Principal {
  /** Issuer and subject, or whatever else names the same user in every request. No token: tokens are renewed. */
  readonly owner: string;
  /** Keeps the sessions of several tenants apart; the transport's own if absent. */
  readonly namespace?: string;
}

export interface TransportOptions extends GuardOptions {
  readonly dispatch: Dispatch;
  readonly sessions: Sessions;
  readonly hub: Hub;
  readonly log: Log;
  /** `stateful-for-initialize` if absent. */
  readonly mode?: Mode;
  /** `/mcp` if absent; served with and without a slash at its end. */
  readonly path?: string;
  readonly namespace?: string;
  /** Verifies who calls; `undefined` is answered with 401. Nobody is verified if absent. */
  readonly authenticate?: (request: WebRequest) => Promise<Principal | undefined>;
  readonly onBegin?: BeginHook;
  /** The `WWW-Authenticate` header of a 401; `Bearer` if absent. */
  readonly challenge?: string;
  /** Milliseconds between two signs of life on a stream; 15,000 if absent, 0 for none. */
  readonly keepAlive?: number;
  /** Milliseconds that a client waits before it comes back for the rest of a stream; 1,000 if absent. */
  readonly retry?: number;
}

/** The Streamable HTTP transport, whatever the platform. */
export interface Transport {
  /** Answers a request. Never rejects. */
  handle(request: WebRequest): Promise<Reply>;
  /**
   * Refuses new requests, ends streams and resolves when the running calls have ended; those that still run after
   * `timeout` milliseconds are aborted.
   */
  close(timeout: number): Promise<void>;
}

const healthPath = '/health';
/** The longest time that a timer takes. */
const longestTime = 2 ** 31 - 1;

function isTime(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= longestTime;
}

export function createTransport(options: TransportOptions): Transport {
  return new HttpTransport(options);
}

class HttpTransport implements Transport {
  readonly #options: TransportOptions;
  readonly #guard: Guard;
  readonly #serving: Serving;
  readonly #path: string;
  readonly #anybody: Scope;
  readonly #methods: string;
  #closing = false;

  constructor(options: TransportOptions) {
    const { mode = 'stateful-for-initialize', keepAlive = defaults.keepAlive, retry = defaults.retry } = options;
    for (const [name, value] of Object.entries({ keepAlive, retry })) {
      if (!isTime(value)) throw new TypeError(`${name}: expected a whole number of milliseconds, 0 to ${longestTime}`);
    }
    this.#options = options;
    this.#guard = new Guard(options);
    this.#serving = new Serving({ ...options, mode, keepAlive, retry });
    this.#path = withoutSlash(options.path ?? '/mcp');
    this.#anybody = { namespace: options.namespace ?? '', owner: undefined };
    this.#methods = mode === 'stateless' ? 'POST' : 'GET, POST, DELETE';
  }

  async handle(request: WebRequest): Promise<Reply> {
    const path = withoutSlash(pathOf(request.url));
    if (path !== this.#path) return path === healthPath ? this.#health(request) : refused(404, 'No such path');
    const origin = request.headers.get('origin');
    let reply: Reply;
    let trusted = false;
    try {
      this.#guard.check(request, origin);
      trusted = true;
      reply = await this.#serve(request);
    } catch (error) {
      reply = this.#failed(error, request);
    }
    if (origin === null || !trusted) return reply;
    return { ...reply, headers: { ...reply.headers, ...this.#guard.headers(origin) } };
  }

  async close(timeout: number): Promise<void> {
    this.#closing = true;
    await this.#serving.close(timeout);
  }

  async #serve(request: WebRequest): Promise<Reply> {
    if (request.method === 'OPTIONS') return this.#preflight(request);
    if (this.#closing) throw new Refusal(503, codes.internal, 'The server is closing', later);
    const scope = this.#options.authenticate === undefined ? this.#anybody : await this.#authenticate(request);
    if (request.method === 'POST') return await this.#serving.post(request, scope);
    if (this.#methods === 'POST') throw notAllowed(this.#methods);
    if (request.method === 'GET') return await this.#serving.get(request, scope);
    if (request.method === 'DELETE') return await this.#serving.delete(request, scope);
    throw notAllowed(this.#methods);
  }

  async #authenticate(request: WebRequest): Promise<Scope> {
    const principal = await this.#options.authenticate?.(request);
    if (principal !== undefined) {
      return { namespace: principal.namespace ?? this.#anybody.namespace, owner: principal.owner };
    }
    const headers = { 'WWW-Authenticate': this.#options.challenge ?? 'Bearer' };
    throw new Refusal(401, codes.request, 'Authentication is required', { headers });
  }

  #preflight(request: WebRequest): Reply {
    const methods = `${this.#methods}, OPTIONS`;
    return { status: 204, headers: { Allow: methods, ...this.#guard.preflight(request, methods) }, body: undefined };
  }

  async #health(request: WebRequest): Promise<Reply> {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return this.#failed(notAllowed('GET, HEAD'), request);
    }
    try {
      await this.#options.sessions.probe();
    } catch (error) {
      this.#options.log('warning', 'health check failed', {
        error: error instanceof Error ? error.message : String(error),
      });
      return jsonReply(503, '{"status":"unavailable"}');
    }
    return jsonReply(200, '{"status":"ok"}');
  }

  #failed(error: unknown, request: WebRequest): Reply {
    const id = error instanceof Refusal ? error.id : undefined;
    return failedReply(error, id, request.method, this.#options.log, request);
  }
}

const later = { headers: { 'Retry-After': '1', Connection: 'close' } };

function notAllowed(methods: string): Refusal {
  return new Refusal(405, codes.request, 'Method not allowed', { headers: { Allow: methods } });
}

function refused(status: number, message: string): Reply {
  return jsonReply(status, encodeError(undefined, codes.request, message));
}

/** The path of an absolute URL, as it was sent. */
function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3);
  if (start === -1) return '/';
  for (let end = start; end < url.length; end += 1) {
    const character = url.charCodeAt(end);
    if (character === 0x3f || character === 0x23) return url.slice(start, end);
  }
  return url.slice(start);
}

function withoutSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}
