import type { AnyBucket } from './bucket/bucket.ts';
import { openBucket } from './bucket/open.ts';
import type { WebRequest } from './call.ts';
import { Dispatcher } from './dispatcher.ts';
import type { Principal } from './http.ts';
import { Hub } from './hub.ts';
import type { Log } from './log.ts';
import { Registry } from './registry.ts';
import type { Mode } from './revisions/all.ts';
import { listen } from './server.ts';
import { Sessions } from './session.ts';
import { loadTransitions } from './transitions.ts';

export {
  type AnyBucket,
  type AsyncBucket,
  type Bucket,
  BucketError,
  type BucketErrorCode,
  type Entry,
  type Page,
} from './bucket/bucket.ts';
export { MemoryBucket } from './bucket/memory.ts';
export { openBucket } from './bucket/open.ts';
export { SqliteBucket, type SqliteOptions } from './bucket/sqlite.ts';
export { type Implementation, type Revision, RpcError, type WebRequest } from './call.ts';
export type { Exchange } from './exchange.ts';
export type { Principal } from './http.ts';
export type { Log, LogFields, LogLevel } from './log.ts';
export { Answer, elicit, elicitUrl, NeedInput, type Question } from './questions.ts';
export { Registry, type ToolHandler, type ToolOptions, type ToolResult } from './registry.ts';
export type { Mode } from './revisions/all.ts';
export { type Json, type Scope, Session, SessionError, type SessionErrorCode } from './session.ts';

const hour = 60 * 60 * 1000;

/** Limits and lifetimes that hold where nothing else is said. Times in milliseconds. */
export const defaults = {
  bucket: 'sqlite:./mcp-session.db',
  host: '127.0.0.1',
  port: 3000,
  path: '/mcp',
  mode: 'stateful-for-initialize',
  sessionTtl: hour,
  stateTtl: 10 * 60 * 1000,
} as const;

export interface ServeOptions {
  /** A bucket, or the URL of one. One that was given stays open when the server closes. */
  readonly bucket?: string | AnyBucket;
  readonly host?: string;
  /** 0 takes a free port. */
  readonly port?: number;
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
  readonly log?: Log;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** A server that listens. */
export interface Server {
  readonly url: string;
  readonly port: number;
  /** Lets running calls finish, ends streams, writes what waits, and closes what was opened. */
  close(): Promise<void>;
}

/** Serves a registry over Streamable HTTP. Fails with `BucketError` if the bucket cannot be opened. */
export async function serve(registry: Registry, options: ServeOptions = {}): Promise<Server> {
  if (!Registry.is(registry)) throw new TypeError('serve: expected a Registry');
  const { bucket: given = defaults.bucket, log = () => undefined, now } = options;
  const { sessionTtl = defaults.sessionTtl, stateTtl = defaults.stateTtl } = options;
  const transitions = await loadTransitions({ log });
  const bucket = typeof given === 'string' ? openBucket(given) : given;
  const sessions = new Sessions({ bucket, transitions, log, sessionTtl, stateTtl, ...(now && { now }) });
  const finish = async () => {
    await sessions.close();
    if (typeof given === 'string') await bucket.close();
  };
  const hub = new Hub();
  const dispatch = new Dispatcher(registry, hub);
  try {
    const { bucket: _, now: __, ...more } = { ...defaults, ...options };
    const server = await listen({ ...more, log, dispatch, sessions, hub });
    return {
      url: server.url,
      port: server.port,
      close: async () => {
        await server.close();
        await finish();
      },
    };
  } catch (error) {
    await finish();
    throw error;
  }
}
