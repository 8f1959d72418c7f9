import type { Readable, Writable } from 'node:stream';
import type { BeginHook } from './beginning.ts';
import type { AnyBucket } from './bucket/bucket.ts';
import { openBucket } from './bucket/open.ts';
import type { WebRequest } from './call.ts';
import { defaults } from './config.ts';
import { Dispatcher } from './dispatcher.ts';
import { createTransport, type Principal } from './http.ts';
import { Hub } from './hub.ts';
import type { Log } from './log.ts';
import { Registry } from './registry.ts';
import type { Mode } from './revisions/all.ts';
import { listen } from './server.ts';
import { Sessions } from './session.ts';
import { claimStdout } from './stdio/stdout.ts';
import { Stdio } from './stdio/stdio.ts';
import { loadTransitions } from './transitions.ts';
import { createHandler as webHandler } from './web.ts';

export {
  type AnyBucket,
  type AsyncBucket,
  type Bucket,
  BucketError,
  type BucketErrorCode,
  type Entry,
  type Page,
} from './bucket/bucket.ts';
export type { Beginning, BeginHook } from './beginning.ts';
export { MemoryBucket } from './bucket/memory.ts';
export { openBucket } from './bucket/open.ts';
export { SqliteBucket, type SqliteOptions } from './bucket/sqlite.ts';
export { defaults } from './config.ts';
export { type Implementation, type Revision, RpcError, type WebRequest } from './call.ts';
export type { Dependency, DependencyOptions } from './dependencies.ts';
export type { Exchange } from './exchange.ts';
export type { Principal } from './http.ts';
export type { Log, LogFields, LogLevel } from './log.ts';
export { Answer, elicit, elicitUrl, listRoots, NeedInput, type Question, sample } from './questions.ts';
export type { Completer, PromptResult } from './offered.ts';
export {
  type Registration,
  Registry,
  type ResourceResult,
  type ToolHandler,
  type ToolOptions,
  type ToolResult,
} from './registry.ts';
export type { Mode } from './revisions/all.ts';
export { type Json, type Scope, Session, SessionError, type SessionErrorCode } from './session.ts';

/** How long running calls get when a handler closes, in milliseconds. */
const drainTimeout = 10_000;

export interface HandlerOptions {
  /** A bucket, or the URL of one. One that was given stays open when the server closes. */
  readonly bucket?: string | AnyBucket;
  readonly path?: string;
  readonly mode?: Mode;
  /** The silence after which a session expires, in milliseconds. */
  readonly sessionTtl?: number;
  /** How long a request state lives, in milliseconds. */
  readonly stateTtl?: number;
  readonly allowOrigins?: readonly string[];
  readonly allowHosts?: readonly string[];
  /** Separates the sessions of servers that share a bucket. */
  readonly namespace?: string;
  /** Verifies who calls; `undefined` is answered with 401. */
  readonly authenticate?: (request: WebRequest) => Promise<Principal | undefined>;
  readonly onBegin?: BeginHook;
  /** Milliseconds between two signs of life on a stream, 0 for none; {@link defaults} says what if absent. */
  readonly keepAlive?: number;
  /** Milliseconds that a client waits before it comes back for the rest of a stream; as {@link defaults} says if absent. */
  readonly retry?: number;
  readonly log?: Log;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export interface ServeOptions extends HandlerOptions {
  readonly host?: string;
  /** 0 takes a free port. */
  readonly port?: number;
}

/** A server that listens. */
export interface Server {
  readonly url: string;
  readonly port: number;
  /** Lets running calls finish, ends streams, writes what waits, and closes what was opened. Later calls wait for the first. */
  close(): Promise<void>;
}

type HttpOnly = 'path' | 'allowOrigins' | 'allowHosts' | 'authenticate' | 'keepAlive' | 'retry';

export interface StdioOptions extends Omit<HandlerOptions, HttpOnly> {
  /** Where the messages of the client come from; stdin if absent. */
  readonly input?: Readable;
  /** Where those for it go; stdout if absent, and then whatever else the program prints there goes to stderr. */
  readonly output?: Writable;
}

/** A server of one client. */
export interface StdioServer {
  /** Resolves when the input has ended or {@link close} was called, and all that follows is done. */
  readonly closed: Promise<void>;
  /**
   * Reads no more, lets running calls finish, deletes the session, and closes what was opened; as the end of the input does.
   * When that is under way, running calls are aborted.
   */
  close(): Promise<void>;
}

/** A server without a port: answers the requests that a host of one's own hands it. */
export interface Handler {
  (request: Request): Promise<Response>;
  /** As that of a {@link Server}. */
  close(): Promise<void>;
}

/** Serves a registry over Streamable HTTP. Fails with `BucketError` if the bucket cannot be opened. */
export async function serve(registry: Registry, options: ServeOptions = {}): Promise<Server> {
  if (!Registry.is(registry)) throw new TypeError('serve: expected a Registry');
  const { transport, finish } = await assemble(registry, options);
  try {
    const { host, port } = { ...defaults, ...options };
    const server = await listen({ ...transport, host, port });
    const close = async () => {
      await server.close();
      await finish();
    };
    return { url: server.url, port: server.port, close };
  } catch (error) {
    await finish();
    throw error;
  }
}

/**
 * Serves a registry to one client over stdin and stdout, or other streams, a message a line. A session lasts as long as the
 * streams. Fails with `BucketError` if the bucket cannot be opened.
 */
export async function serveStdio(registry: Registry, options: StdioOptions = {}): Promise<StdioServer> {
  if (!Registry.is(registry)) throw new TypeError('serveStdio: expected a Registry');
  const { transport, finish } = await assemble(registry, options);
  const { input = process.stdin } = options;
  const { output, release } = options.output === undefined ? claimStdout() : { output: options.output };
  const stdio = new Stdio({ ...transport, input, output });
  const closed = stdio.closed.then(finish).finally(release);
  const close = () => {
    void stdio.close();
    return closed;
  };
  return { closed, close };
}

/**
 * Serves a registry where requests and responses are those of the Web platform: Hono, Bun, Deno, a function of one's own.
 * What cannot be opened is an error of the first request.
 */
export function createHandler(registry: Registry, options: HandlerOptions = {}): Handler {
  if (!Registry.is(registry)) throw new TypeError('createHandler: expected a Registry');
  let made: Promise<{ handle(request: Request): Promise<Response>; close(): Promise<void> }> | undefined;
  const make = async () => {
    const { transport, finish } = await assemble(registry, options);
    const served = createTransport(transport);
    const close = async () => {
      await served.close(drainTimeout);
      await finish();
    };
    return { handle: webHandler(served), close };
  };
  const handler = async (request: Request) => {
    made ??= make().catch((error: unknown) => {
      // The next request tries again: a bucket that is down comes back.
      made = undefined;
      throw error;
    });
    return (await made).handle(request);
  };
  return Object.assign(handler, { close: async () => (await made)?.close() });
}

/** What both ways of serving are made of. */
async function assemble(registry: Registry, options: HandlerOptions) {
  const { bucket: given = defaults.bucket, log = () => undefined, now, ...more } = options;
  const { sessionTtl = defaults.sessionTtl, stateTtl = defaults.stateTtl } = options;
  const transitions = await loadTransitions({ log });
  const bucket = typeof given === 'string' ? openBucket(given) : given;
  const sessions = new Sessions({ bucket, transitions, log, sessionTtl, stateTtl, ...(now && { now }) });
  const hub = new Hub();
  const { mode, path } = { ...defaults, ...options };
  const dispatch = new Dispatcher(registry, hub, { now, log });
  const finishOnce = async () => {
    dispatch.close();
    await sessions.close();
    if (typeof given === 'string') await bucket.close();
  };
  let finishing: Promise<void> | undefined;
  const finish = () => {
    finishing ??= finishOnce();
    return finishing;
  };
  return { transport: { ...more, mode, path, log, sessions, hub, dispatch }, finish };
}
