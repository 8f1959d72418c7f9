import { instantiate as instantiateGlue, type Exports } from '#dist/session/session.js';
import type * as sessions from '#dist/types/host/interfaces/mcp-session-sessions.js';
import type { Bucket } from './bucket/bucket.ts';
import { BucketResource, keyvalueImports, type NamedBuckets } from './bucket/wasi.ts';
import { guestSessions, type Home, type InnerSessions } from './guest.ts';
import { compile, Instance, InstanceError } from './instance.ts';
import type { Log } from './log.ts';
import { hasPayload } from './pool.ts';
import type { Transitions } from './transitions.ts';
import { type GivenUp, suspendingImports, Waiting } from './waiting.ts';
import { OutputStream, type WasiOptions, wasiImports } from './wasi.ts';

export type * from '#dist/types/host/interfaces/mcp-session-sessions.js';
export type { AnyBucket, Bucket as HostBucket, BucketErrorCode, Entry, Page } from './bucket/bucket.ts';
export { type AsyncComponent, type AsyncComponentOptions, instantiateAsync } from './async-component.ts';
export { AsyncBucketResource } from './bucket/async-wasi.ts';
export { BucketError } from './bucket/bucket.ts';
export type { GuestFuture, GuestSession, GuestSessions } from './guest.ts';
export { Pool, type PoolOptions } from './pool.ts';
export { InstanceError };
export type { GivenUp } from './waiting.ts';
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
  /**
   * The imports, `mcp:session/sessions` among them, for one instance of a component that is suspended while it waits. It
   * was transpiled with `asyncMode: 'jspi'`, with every function of `sessions` but `session.id`, and `poll` and
   * `pollable.block`, among its asynchronous imports. The thread goes on with other work meanwhile. When `givenUp` is
   * aborted, what the instance waits for never comes: a {@link Pool} does so with an instance that it gives up.
   */
  suspendingImports(givenUp?: GivenUp): Readonly<Record<string, object>>;
  /**
   * Makes every suspended component look now for the answer that it waits for. Call it when an answer was stored by this
   * process; what others store is found within 100 ms.
   */
  wake(): void;
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
  const waiting = new Waiting();
  return {
    get sessions() {
      return instance.exports.sessions;
    },
    get transitions() {
      return instance.exports.transitions;
    },
    imports,
    suspendingImports(givenUp) {
      const place = { waiting, givenUp };
      const sessions = guestSessions(async () => homeIn(instance.exports.sessions), place);
      return { ...imports, ...suspendingImports(imports, place), 'mcp:session/sessions': sessions };
    },
    wake: () => waiting.wake(),
    bucket: (bucket, dropped) => new BucketResource(bucket, dropped),
    outputStream: (write) => new OutputStream(write),
  };
}

/** A synchronous instance as the home of sessions: nobody else is ever inside when a call comes. */
function homeIn(exported: typeof sessions): Home {
  return {
    sessions: exported as unknown as InnerSessions,
    run: async (call) => call(),
    drop(resource) {
      try {
        resource[Symbol.dispose]();
      } catch (error) {
        // The instance failed in it, which was logged. Nobody waits for a drop.
        if (!(error instanceof InstanceError)) throw error;
      }
    },
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
