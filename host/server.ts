import { isUtf8 } from 'node:buffer';
import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Reply } from './answer.ts';
import type { WebRequest } from './call.ts';
import { createTransport } from './http.ts';
import type { TransportOptions } from './http.ts';
import { BodyError } from './rpc.ts';
import type { EventStream } from './sse.ts';
import { bodyLimit } from './web.ts';

export interface ServerOptions extends TransportOptions {
  /** The address to bind; `127.0.0.1` if absent. */
  readonly host?: string;
  /** 0, as if absent, takes a free port. */
  readonly port?: number;
  /** The largest body that is read, in bytes; 4 MiB if absent. */
  readonly bodyLimit?: number;
  /** Milliseconds that running calls get when the server closes; 10,000 if absent. */
  readonly drainTimeout?: number;
}

/** A server that listens. */
export interface Listening {
  /** `http://HOST:PORT/PATH` */
  readonly url: string;
  readonly port: number;
  /** Stops accepting, ends streams, lets running calls finish, then closes. Later calls wait for the first. */
  close(): Promise<void>;
}

/** Milliseconds within which a client must have sent its headers, and its whole request. */
const headersTimeout = 15_000;
const requestTimeout = 120_000;
/** Milliseconds that an idle connection is kept: longer than proxies keep theirs. */
const keepAliveTimeout = 75_000;
/** How much of a body that is too large is read all the same, in limits, so that the client gets to hear of it. */
const patience = 4;

/** Serves the transport over `node:http`. Rejects if the port cannot be had. */
export async function listen(options: ServerOptions): Promise<Listening> {
  const { host = '127.0.0.1', port = 0, path = '/mcp', drainTimeout = 10_000 } = options;
  const transport = createTransport({ loopback: isLoopback(host), ...options });
  const limit = options.bodyLimit ?? bodyLimit;
  let closing: Promise<void> | undefined;
  // A repeated header is joined, so that it can be told from a single one.
  const settings = { headersTimeout, requestTimeout, keepAliveTimeout, joinDuplicateHeaders: true };
  const server = createServer(settings, (incoming, response) => {
    transport.handle(new NodeRequest(incoming, response, limit)).then(
      (reply) => send(reply, response, closing !== undefined),
      // The transport answers every failure itself; what is left is one of this shell.
      (error: unknown) => {
        options.log('error', 'request failed', { error: String(error) });
        response.destroy();
      },
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
  const bound = (server.address() as AddressInfo).port;
  const authority = host.includes(':') ? `[${host}]` : host;
  return {
    url: `http://${authority}:${bound}${path}`,
    port: bound,
    close() {
      closing ??= closeServer(server, () => transport.close(drainTimeout));
      return closing;
    },
  };
}

async function closeServer(server: Server, drain: () => Promise<void>): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  await drain();
  server.closeIdleConnections();
  // What was answered last may still be on its way out.
  const timer = setTimeout(() => server.closeAllConnections(), 1000);
  await closed;
  clearTimeout(timer);
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/** A request of `node:http` as the transport reads it; what is costly is made only when it is asked for. */
class NodeRequest implements WebRequest {
  readonly #incoming: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #limit: number;
  #abort: AbortController | undefined;

  constructor(incoming: IncomingMessage, response: ServerResponse, limit: number) {
    this.#incoming = incoming;
    this.#response = response;
    this.#limit = limit;
  }

  get method(): string {
    return this.#incoming.method ?? 'GET';
  }

  get url(): string {
    const target = this.#incoming.url ?? '/';
    if (!target.startsWith('/')) return target.includes('://') ? target : 'http://localhost/';
    return `http://${this.#incoming.headers.host ?? 'localhost'}${target}`;
  }

  // Its own headers: one object less for each request.
  get headers(): this {
    return this;
  }

  get(name: string): string | null {
    const value = this.#incoming.headers[name.toLowerCase()];
    return value === undefined ? null : String(value);
  }

  has(name: string): boolean {
    return this.#incoming.headers[name.toLowerCase()] !== undefined;
  }

  get signal(): AbortSignal {
    if (this.#abort !== undefined) return this.#abort.signal;
    const abort = new AbortController();
    this.#abort = abort;
    const response = this.#response;
    if (response.destroyed && !response.writableFinished) abort.abort();
    else response.once('close', () => response.writableFinished || abort.abort());
    return abort.signal;
  }

  text(): Promise<string> {
    return new Promise((resolve, reject) => {
      const incoming = this.#incoming;
      const limit = this.#limit;
      const tooLarge = (): BodyError => new BodyError('too-large', `The body is larger than ${limit} bytes`);
      const aborted = (cause?: unknown): void => reject(new BodyError('aborted', 'The body ended early', { cause }));
      if (Number(incoming.headers['content-length'] ?? 0) > limit * patience) return reject(tooLarge());
      let chunks: Buffer[] = [];
      let size = 0;
      incoming.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size <= limit) {
          chunks.push(chunk);
          return;
        }
        chunks = [];
        if (size > limit * patience) reject(tooLarge());
      });
      incoming.on('end', () => {
        if (size > limit) return reject(tooLarge());
        const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
        if (isUtf8(body)) resolve(body.toString('utf8'));
        else reject(new BodyError('not-utf-8', 'The body is not UTF-8'));
      });
      incoming.on('error', aborted);
      incoming.on('close', () => incoming.complete || aborted());
    });
  }
}

function send({ status, headers, body }: Reply, response: ServerResponse, closing: boolean): void {
  if (response.destroyed) {
    if (typeof body === 'object') body.cancel();
    return;
  }
  const all: Record<string, string | number> = { ...headers };
  if (closing) all['Connection'] = 'close';
  if (typeof body === 'object') {
    response.writeHead(status, all);
    drain(body, response);
    return;
  }
  if (status !== 204) all['Content-Length'] = body === undefined ? 0 : Buffer.byteLength(body);
  response.writeHead(status, all);
  response.end(body);
}

function drain(stream: EventStream, response: ServerResponse): void {
  // A write that meets a closed socket reports it here; the close says the same.
  response.on('error', () => stream.cancel());
  response.on('close', () => stream.cancel());
  response.on('drain', () => stream.pull());
  response.flushHeaders();
  stream.attach({
    write: (text) => response.write(text),
    end: (complete) => (complete ? response.end() : response.destroy()),
  });
}
