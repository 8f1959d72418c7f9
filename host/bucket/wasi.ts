import type * as atomics from '#dist/types/host/interfaces/wasi-keyvalue-atomics.js';
import type * as store from '#dist/types/host/interfaces/wasi-keyvalue-store.js';
import { type Bucket, BucketError, type Entry } from './bucket.ts';

/** The buckets that `wasi:keyvalue/store` opens by name. */
export type NamedBuckets = Readonly<Record<string, Bucket>>;

/**
 * A bucket as the `wasi:keyvalue` resource.
 *
 * Nothing crosses into a component but what the WIT declares: whatever the bucket throws, and whatever of a wrong shape
 * it returns, becomes `other` with a text. Dropping the resource leaves the bucket open; it belongs to who made it.
 */
export class BucketResource {
  readonly #bucket: Bucket;
  readonly #dropped: (() => void) | undefined;

  /** `dropped` is told when a component drops the resource. */
  constructor(bucket: Bucket, dropped?: () => void) {
    this.#bucket = bucket;
    this.#dropped = dropped;
  }

  get(key: string): Uint8Array | undefined {
    return this.entry(key)?.value;
  }

  set(key: string, value: Uint8Array): void {
    this.#ask('set', (bucket) => bucket.set(key, value), isNothing);
  }

  delete(key: string): void {
    this.#ask('delete', (bucket) => bucket.delete(key), isNothing);
  }

  exists(key: string): boolean {
    return this.#ask(
      'exists',
      (bucket) => bucket.exists(key),
      (result) => typeof result === 'boolean',
    );
  }

  listKeys(cursor: string | undefined): store.KeyResponse {
    const page = this.#ask('list', (bucket) => bucket.list(cursor), isPage);
    return page.cursor === undefined ? { keys: page.keys } : { keys: page.keys, cursor: page.cursor };
  }

  /** The value and version under `key`, for {@link Cas}. */
  entry(key: string): Entry | undefined {
    return this.#ask('get', (bucket) => bucket.get(key), isEntry) ?? undefined;
  }

  /** Writes `value` if `key` is still at `expected`. Whether it did. */
  swap(key: string, expected: string | undefined, value: Uint8Array): boolean {
    return this.#ask('swap', (bucket) => bucket.swap(key, expected, value), isVersion) !== undefined;
  }

  [Symbol.dispose](): void {
    this.#dropped?.();
  }

  #ask<T>(method: string, run: (bucket: Bucket) => T, fits: (result: unknown) => boolean): T {
    let result: T;
    try {
      result = run(this.#bucket);
    } catch (error) {
      throw storeError(error);
    }
    if (fits(result)) return result;
    if (result instanceof Promise) {
      // Refused, so nobody else will look at its outcome.
      result.catch(() => undefined);
      throw other(`${method} of this bucket answers later, which a component cannot wait for`);
    }
    throw other(`${method} of this bucket returned something of the wrong shape`);
  }
}

/** `wasi:keyvalue/atomics` `cas`: a key as it was when this was made, for one attempt to replace its value. */
export class Cas {
  readonly #bucket: BucketResource;
  readonly #key: string;
  readonly #entry: Entry | undefined;

  constructor(bucket: BucketResource, key: string) {
    this.#bucket = bucket;
    this.#key = key;
    this.#entry = bucket.entry(key);
  }

  static new(bucket: BucketResource, key: string): Cas {
    return new Cas(bucket, key);
  }

  current(): Uint8Array | undefined {
    return this.#entry?.value;
  }

  /** Replaces the value if nobody else did, else throws `cas-failed` with the key as it is now. */
  swap(value: Uint8Array): void {
    let swapped: boolean;
    let now: Cas | undefined;
    try {
      swapped = this.#bucket.swap(this.#key, this.#entry?.version, value);
      if (!swapped) now = new Cas(this.#bucket, this.#key);
    } catch (error) {
      throw { tag: 'store-error', val: error as store.Error } satisfies atomics.CasError;
    }
    if (now !== undefined) throw { tag: 'cas-failed', val: now as unknown as atomics.Cas } satisfies atomics.CasError;
  }
}

const maxS64 = 2n ** 63n - 1n;

/** The number in decimal text that an entry holds, and `delta` more; nothing there is 0. */
export function sumOf(entry: Entry | undefined, delta: bigint): bigint {
  const text = entry === undefined ? '0' : Buffer.from(entry.value).toString('latin1');
  if (!/^-?\d{1,19}$/.test(text)) throw other('the value to increment is no number');
  const sum = BigInt(text) + delta;
  if (sum > maxS64 || sum < -maxS64 - 1n) throw other('the sum does not fit into 64 bits');
  return sum;
}

/** Adds `delta` to the number under `key`. Returns the sum. */
function increment(bucket: BucketResource, key: string, delta: bigint): bigint {
  for (;;) {
    const entry = bucket.entry(key);
    const sum = sumOf(entry, delta);
    if (bucket.swap(key, entry?.version, new TextEncoder().encode(sum.toString()))) return sum;
  }
}

/** The `wasi:keyvalue` imports, by name without version. */
export function keyvalueImports(buckets: NamedBuckets = {}): Record<string, object> {
  return {
    'wasi:keyvalue/store': {
      Bucket: BucketResource,
      open(identifier: string): BucketResource {
        const bucket = Object.hasOwn(buckets, identifier) ? buckets[identifier] : undefined;
        if (bucket === undefined) throw { tag: 'no-such-store' } satisfies store.Error;
        return new BucketResource(bucket);
      },
    },
    'wasi:keyvalue/atomics': {
      Cas,
      increment,
      swap: (cas: Cas, value: Uint8Array) => cas.swap(value),
    },
    'wasi:keyvalue/batch': {
      getMany: (bucket: BucketResource, keys: string[]) => keys.map((key) => [key, bucket.get(key)]),
      setMany(bucket: BucketResource, pairs: [string, Uint8Array][]): void {
        for (const [key, value] of pairs) bucket.set(key, value);
      },
      deleteMany(bucket: BucketResource, keys: string[]): void {
        for (const key of keys) bucket.delete(key);
      },
    },
  };
}

export function other(text: string): store.Error {
  return { tag: 'other', val: text.toWellFormed() };
}

/** A thrown value as the variant; no thrown value has another way into a component. */
export function storeError(error: unknown): store.Error {
  if (error instanceof BucketError && error.code === 'denied') return { tag: 'access-denied' };
  try {
    return other(error instanceof Error ? error.message : String(error));
  } catch {
    // A value whose text cannot be had, such as an object without a prototype.
    return other('the bucket failed');
  }
}

export const isNothing = (result: unknown) => !(result instanceof Promise);
export const isVersion = (result: unknown) => result === undefined || typeof result === 'string';

export function isEntry(result: unknown): boolean {
  if (result === undefined || result === null) return true;
  if (typeof result !== 'object' || !('value' in result) || !('version' in result)) return false;
  return result.value instanceof Uint8Array && typeof result.version === 'string';
}

export function isPage(result: unknown): boolean {
  if (typeof result !== 'object' || result === null || !('keys' in result) || !Array.isArray(result.keys)) return false;
  const cursor = 'cursor' in result ? result.cursor : undefined;
  return result.keys.every((key) => typeof key === 'string') && (cursor === undefined || typeof cursor === 'string');
}
