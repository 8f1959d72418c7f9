import { BucketError } from '../../host/bucket/bucket.ts';
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

/** A bucket of a process that may die: then nothing comes back from it any more. */
export function mortal(bucket: Bucket): { readonly bucket: AsyncBucket; readonly die: () => void } {
  let isDead = false;
  const never = new Promise<never>(() => undefined);
  const alive = <T>(run: () => T): Promise<T> => (isDead ? never : Promise.resolve(run()));
  return {
    die: () => {
      isDead = true;
    },
    bucket: {
      kind: bucket.kind,
      get: (key) => alive(() => bucket.get(key)),
      set: (key, value) => alive(() => bucket.set(key, value)),
      delete: (key) => alive(() => bucket.delete(key)),
      exists: (key) => alive(() => bucket.exists(key)),
      list: (cursor) => alive(() => bucket.list(cursor)),
      swap: (key, expected, value) => alive(() => bucket.swap(key, expected, value)),
      settled: async () => bucket.settled(),
      close: async () => bucket.close(),
    },
  };
}
