import { BucketError } from '../../host/bucket/bucket.ts';
import type fc from 'fast-check';
import type { AsyncBucket, Bucket, Entry } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';

/** A bucket that can be made to fail, and that counts how often it is asked. */
export class SwitchedBucket extends MemoryBucket {
  down = false;
  asked = 0;

  override get(key: string): Entry | undefined {
    this.#ask();
    return super.get(key);
  }

  override exists(key: string): boolean {
    this.#ask();
    return super.exists(key);
  }

  override swap(key: string, expected: string | undefined, value: Uint8Array): string | undefined {
    this.#ask();
    return super.swap(key, expected, value);
  }

  #ask(): void {
    this.asked += 1;
    if (this.down) throw new BucketError('unavailable', 'cannot reach the store: it was switched off');
  }
}

/** A bucket that answers a turn of the event loop later, so that everything can come between. */
export function later(bucket: Bucket): AsyncBucket {
  const soon = <T>(run: () => T) => new Promise<T>((resolve) => setImmediate(() => resolve(run())));
  return {
    kind: bucket.kind,
    get: (key) => soon(() => bucket.get(key)),
    set: (key, value) => soon(() => bucket.set(key, value)),
    delete: (key) => soon(() => bucket.delete(key)),
    exists: (key) => soon(() => bucket.exists(key)),
    list: (cursor) => soon(() => bucket.list(cursor)),
    swap: (key, expected, value) => soon(() => bucket.swap(key, expected, value)),
    settled: () => bucket.settled(),
    close: () => bucket.close(),
  };
}

/** A bucket of a process that may stop: then nothing comes back from it, until it goes on or for ever. */
export function mortal(bucket: Bucket | AsyncBucket) {
  let all: Promise<void> | undefined;
  let swaps: Promise<void> | undefined;
  const alive = async <T>(run: () => T | Promise<T>): Promise<T> => {
    await all;
    return run();
  };
  /** Between a look and the swap that follows it. Returns what makes it go on. */
  const pauseBeforeSwaps = (): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    swaps = promise;
    return () => {
      swaps = undefined;
      resolve();
    };
  };
  const die = (): void => {
    all = new Promise(() => undefined);
  };
  const stopping: AsyncBucket = {
    kind: bucket.kind,
    get: (key) => alive(() => bucket.get(key)),
    set: (key, value) => alive(() => bucket.set(key, value)),
    delete: (key) => alive(() => bucket.delete(key)),
    exists: (key) => alive(() => bucket.exists(key)),
    list: (cursor) => alive(() => bucket.list(cursor)),
    swap: (key, expected, value) =>
      alive(async () => {
        await swaps;
        return bucket.swap(key, expected, value);
      }),
    settled: () => alive(() => bucket.settled()),
    close: async () => bucket.close(),
  };
  return { bucket: stopping, pauseBeforeSwaps, die };
}

/** A bucket whose every call waits until the scheduler lets it happen. */
export function scheduled(bucket: Bucket, scheduler: fc.Scheduler): AsyncBucket {
  const turn = async <T>(what: string, run: () => T): Promise<T> => {
    await scheduler.schedule(Promise.resolve(), what);
    return run();
  };
  return {
    kind: bucket.kind,
    get: (key) => turn('get', () => bucket.get(key)),
    set: (key, value) => turn('set', () => bucket.set(key, value)),
    delete: (key) => turn('delete', () => bucket.delete(key)),
    exists: (key) => turn('exists', () => bucket.exists(key)),
    list: (cursor) => turn('list', () => bucket.list(cursor)),
    swap: (key, expected, value) => turn('swap', () => bucket.swap(key, expected, value)),
    settled: () => turn('settled', () => undefined),
    close: () => bucket.close(),
  };
}
