import { instantiate as instantiateGlue, type Exports } from '#dist/session-async/session.js';
import type { AnyBucket } from './bucket/bucket.ts';
import { AsyncBucketResource, asyncKeyvalueImports, type NamedAnyBuckets } from './bucket/async-wasi.ts';
import { type GuestSessions, guestSessions, type Home, type InnerSessions } from './guest.ts';
import { compile, InstanceError } from './instance.ts';
import type { Log } from './log.ts';
import { hasPayload, SuspendingInstance } from './pool.ts';
import { type GivenUp, type Place, suspendingImports, Waiting } from './waiting.ts';
import { OutputStream, type WasiOptions, wasiImports } from './wasi.ts';

export interface AsyncComponentOptions extends WasiOptions {
  /** What a component that is linked with this one may open by name. */
  readonly buckets?: NamedAnyBuckets | undefined;
  /** How many instances of `session.wasm` there are at most: as many calls may be in buckets at once. 4 by default. */
  readonly instances?: number | undefined;
  /** Hears `instance replaced` when a call made an instance fail. */
  readonly log?: Log | undefined;
}

/**
 * `session.wasm` over buckets that answer later, suspended while they work.
 *
 * A refused call rejects with an `Error` whose `payload` is the `session-error`. A session lives in one of the
 * instances; when that fails, its calls are refused with `unexpected`, and the session is to be opened again.
 */
export interface AsyncComponent {
  /** The interface `mcp:session/sessions`, in promises. */
  readonly sessions: GuestSessions<AsyncBucketResource>;
  /**
   * The imports for one instance of a component that is linked with this one, by name without version. It was transpiled
   * with `asyncMode: 'jspi'`, and with every function of these among its asynchronous imports but `store.open`,
   * `cas.current` and `session.id`: of `sessions`, of `wasi:keyvalue`, and `poll` and `pollable.block`. When `givenUp` is
   * aborted, what the instance waits for never comes.
   */
  suspendingImports(givenUp?: GivenUp): Readonly<Record<string, object>>;
  /** Makes every suspended component look now for the answer that it waits for. Others' answers are found in 100 ms. */
  wake(): void;
  /** A bucket of either kind as the resource that `initialize` and `open` take. `dropped` is told when it is dropped. */
  bucket(bucket: AnyBucket, dropped?: () => void): AsyncBucketResource;
  /** A stream for `elicit`, which hands each write to `write`. */
  outputStream(write: (bytes: Uint8Array) => void): OutputStream;
}

/** Runs `session.wasm` over buckets of either kind. Fails with `RangeError` if `instances` is no whole number above 0. */
export async function instantiateAsync(options: AsyncComponentOptions = {}): Promise<AsyncComponent> {
  const { instances = 4, buckets, log } = options;
  if (!Number.isInteger(instances) || instances < 1) {
    throw new RangeError(`instances: expected 1 or more, received ${instances}`);
  }
  const imports = {
    ...wasiImports(options),
    ...asyncKeyvalueImports(buckets),
    'mcp:session/elicitation': {},
  };
  const { coreModule } = await compile('session');
  const make = () =>
    new SuspendingInstance<Exports>(instantiateGlue(coreModule, imports), { declared: hasPayload, log });
  const waiting = new Waiting();
  const homes = new Homes(make, instances);
  const sessionsAt = (place: Place) => guestSessions<AsyncBucketResource>(async () => homes.settle(), place);
  return {
    sessions: sessionsAt({ waiting }),
    suspendingImports(givenUp) {
      const place = { waiting, givenUp };
      return { ...imports, ...suspendingImports(imports, place), 'mcp:session/sessions': sessionsAt(place) };
    },
    wake: () => waiting.wake(),
    bucket: (bucket, dropped) => new AsyncBucketResource(bucket, dropped),
    outputStream: (write) => new OutputStream(write),
  };
}

/** The instances that sessions live in. */
class Homes {
  readonly #make: () => SuspendingInstance<Exports>;
  readonly #size: number;
  #instances: SuspendingInstance<Exports>[] = [];

  constructor(make: () => SuspendingInstance<Exports>, size: number) {
    this.#make = make;
    this.#size = size;
  }

  /** The instance with the least to do; a new one while all are busy and there may be more. */
  settle(): Home {
    this.#instances = this.#instances.filter(({ failed }) => !failed);
    let [least] = this.#instances.toSorted((a, b) => a.load - b.load);
    if (least === undefined || (least.load > 0 && this.#instances.length < this.#size)) {
      least = this.#make();
      this.#instances.push(least);
    }
    return homeIn(least);
  }
}

function homeIn(instance: SuspendingInstance<Exports>): Home {
  return {
    sessions: instance.exports.sessions as unknown as InnerSessions,
    run: (call) => instance.run(call),
    drop(resource) {
      if (instance.failed) return;
      instance
        .run(() => resource[Symbol.dispose]())
        .catch((error: unknown) => {
          // The instance failed in it, which was logged. Nobody waits for a drop.
          if (!(error instanceof InstanceError)) throw error;
        });
    },
  };
}
