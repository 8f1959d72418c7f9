import { instantiate as instantiateGlue, type Exports } from '#dist/session/session.js';
import type * as sessions from '#dist/types/host/interfaces/mcp-session-sessions.js';
import type { Bucket } from './bucket/bucket.ts';
import { BucketResource, keyvalueImports, type NamedBuckets } from './bucket/wasi.ts';
import { compile, Instance } from './instance.ts';
import type { Log } from './log.ts';
import type { Transitions } from './transitions.ts';
import { OutputStream, type WasiOptions, wasiImports } from './wasi.ts';

export type * from '#dist/types/host/interfaces/mcp-session-sessions.js';
export type { Bucket as HostBucket, BucketErrorCode, Entry, Page } from './bucket/bucket.ts';
export { BucketError } from './bucket/bucket.ts';
export { InstanceError } from './instance.ts';
export { BucketResource, OutputStream };

export interface ComponentOptions extends WasiOptions {
  /** What a component that is linked with this one may open by name. */
  readonly buckets?: NamedBuckets | undefined;
  /** Hears `instance replaced` when a call made the component fail. */
  readonly log?: Log | undefined;
}

/**
 * `session.wasm`, running.
 *
 * A refused call throws an `Error` whose `payload` is the `session-error`. A call in which the component fails throws
 * an {@link InstanceError}; sessions opened before are to be opened again then, from `sessions` as it is afterwards.
 */
export interface Component {
  /** The interface `mcp:session/sessions`. It can be handed to another component as its import. */
  readonly sessions: typeof sessions;
  /** The interface `mcp:session/transitions`. */
  readonly transitions: Transitions;
  /** The imports it was given, by name without version, for a component that is linked with it. */
  readonly imports: Readonly<Record<string, object>>;
  /** A bucket as the resource that `Session.initialize` and `open` take. `dropped` is told when it is dropped. */
  bucket(bucket: Bucket, dropped?: () => void): BucketResource;
  /** A stream for `elicit`, which hands each write to `write`. */
  outputStream(write: (bytes: Uint8Array) => void): OutputStream;
}

/** Runs `session.wasm` over synchronous buckets. */
export async function instantiate(options: ComponentOptions = {}): Promise<Component> {
  const imports = componentImports(options);
  const make = await instantiateSession(options, imports);
  const instance = new Instance<Exports>({ make, declared: hasPayload, log: options.log });
  return {
    get sessions() {
      return instance.exports.sessions;
    },
    get transitions() {
      return instance.exports.transitions;
    },
    imports,
    bucket: (bucket, dropped) => new BucketResource(bucket, dropped),
    outputStream: (write) => new OutputStream(write),
  };
}

function componentImports(options: ComponentOptions): Record<string, object> {
  return { ...wasiImports(options), ...keyvalueImports(options.buckets), 'mcp:session/elicitation': {} };
}

/** What makes instances of `session.wasm`. */
export async function instantiateSession(
  options: ComponentOptions,
  imports: Readonly<Record<string, object>> = componentImports(options),
): Promise<() => Exports> {
  const { coreModule } = await compile('session');
  return () => instantiateGlue(coreModule, imports);
}

/** The glue wraps what the WIT declares into an error with a payload. */
function hasPayload(thrown: unknown): boolean {
  return thrown instanceof Error && Object.hasOwn(thrown, 'payload');
}
