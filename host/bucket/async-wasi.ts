import type * as atomics from '#dist/types/host/interfaces/wasi-keyvalue-atomics.js';
import type * as store from '#dist/types/host/interfaces/wasi-keyvalue-store.js';
import type { AnyBucket, Awaitable, Entry } from './bucket.ts';
import { isEntry, isNothing, isPage, isVersion, other, storeError, sumOf } from './wasi.ts';

/** The buckets that `wasi:keyvalue/store` opens by name, for components that are suspended while a bucket works. */
export type NamedAnyBuckets = Readonly<Record<string, AnyBucket>>;

/**
 * A bucket of either kind as the `wasi:keyvalue` resource, for a component that is suspended while the bucket works.
 *
 * Nothing crosses into a component but what the WIT declares, as with `BucketResource`.
 */
export class AsyncBucketResource {
  readonly #bucket: AnyBucket;
  readonly #dropped: (() => void) | undefined;

  /** `dropped` is told when a component drops the resource. */
  constructor(bucket: AnyBucket, dropped?: () => void) {
    this.#bucket = bucket;
    this.#dropped = dropped;
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    return (await this.entry(key))?.value;
  }

  async set(key: string, value: Uint8Array): Promise<void> {
    // The bytes are the component's memory: a bucket that answers later may copy them too late.
    const copy = value.slice();
    await this.#ask('set', (bucket) => bucket.set(key, copy), isNothing);
  }

  async delete(key: string): Promise<void> {
    await this.#ask('delete', (bucket) => bucket.delete(key), isNothing);
  }

  exists(key: string): Promise<boolean> {
    return this.#ask(
      'exists',
      (bucket) => bucket.exists(key),
      (result) => typeof result === 'boolean',
    );
  }

  async listKeys(cursor: string | undefined): Promise<store.KeyResponse> {
    const page = await this.#ask('list', (bucket) => bucket.list(cursor), isPage);
    return page.cursor === undefined ? { keys: page.keys } : { keys: page.keys, cursor: page.cursor };
  }

  /** The value and version under `key`, for {@link AsyncCas}. */
  async entry(key: string): Promise<Entry | undefined> {
    return (await this.#ask('get', (bucket) => bucket.get(key), isEntry)) ?? undefined;
  }

  /** Writes `value` if `key` is still at `expected`. Whether it did. */
  async swap(key: string, expected: string | undefined, value: Uint8Array): Promise<boolean> {
    const copy = value.slice();
    return (await this.#ask('swap', (bucket) => bucket.swap(key, expected, copy), isVersion)) !== undefined;
  }

  [Symbol.dispose](): void {
    this.#dropped?.();
  }

  async #ask<T>(
    method: string,
    run: (bucket: AnyBucket) => Awaitable<T>,
    fits: (result: unknown) => boolean,
  ): Promise<T> {
    let result: T;
    try {
      result = await run(this.#bucket);
    } catch (error) {
      throw storeError(error);
    }
    if (fits(result)) return result;
    throw other(`${method} of this bucket returned something of the wrong shape`);
  }
}

/** `wasi:keyvalue/atomics` `cas` over an {@link AsyncBucketResource}. */
export class AsyncCas {
  readonly #bucket: AsyncBucketResource;
  readonly #key: string;
  readonly #entry: Entry | undefined;

  constructor(bucket: AsyncBucketResource, key: string, entry: Entry | undefined) {
    this.#bucket = bucket;
    this.#key = key;
    this.#entry = entry;
  }

  static async new(bucket: AsyncBucketResource, key: string): Promise<AsyncCas> {
    return new AsyncCas(bucket, key, await bucket.entry(key));
  }

  current(): Uint8Array | undefined {
    return this.#entry?.value;
  }

  /** Replaces the value if nobody else did, else throws `cas-failed` with the key as it is now. */
  async swap(value: Uint8Array): Promise<void> {
    let now: AsyncCas | undefined;
    try {
      if (!(await this.#bucket.swap(this.#key, this.#entry?.version, value))) {
        now = await AsyncCas.new(this.#bucket, this.#key);
      }
    } catch (error) {
      throw { tag: 'store-error', val: error as store.Error } satisfies atomics.CasError;
    }
    if (now !== undefined) throw { tag: 'cas-failed', val: now as unknown as atomics.Cas } satisfies atomics.CasError;
  }
}

async function increment(bucket: AsyncBucketResource, key: string, delta: bigint): Promise<bigint> {
  for (;;) {
    const entry = await bucket.entry(key);
    const sum = sumOf(entry, delta);
    if (await bucket.swap(key, entry?.version, new TextEncoder().encode(sum.toString()))) return sum;
  }
}

/** The `wasi:keyvalue` imports in promises, by name without version. Only `open` and `cas.current` answer at once. */
export function asyncKeyvalueImports(buckets: NamedAnyBuckets = {}): Record<string, object> {
  return {
    'wasi:keyvalue/store': {
      Bucket: AsyncBucketResource,
      open(identifier: string): AsyncBucketResource {
        const bucket = Object.hasOwn(buckets, identifier) ? buckets[identifier] : undefined;
        if (bucket === undefined) throw { tag: 'no-such-store' } satisfies store.Error;
        return new AsyncBucketResource(bucket);
      },
    },
    'wasi:keyvalue/atomics': {
      Cas: AsyncCas,
      increment,
      swap: (cas: AsyncCas, value: Uint8Array) => cas.swap(value),
    },
    'wasi:keyvalue/batch': {
      getMany: (bucket: AsyncBucketResource, keys: string[]) =>
        Promise.all(keys.map(async (key) => [key, await bucket.get(key)])),
      async setMany(bucket: AsyncBucketResource, pairs: [string, Uint8Array][]): Promise<void> {
        for (const [key, value] of pairs) await bucket.set(key, value);
      },
      async deleteMany(bucket: AsyncBucketResource, keys: string[]): Promise<void> {
        for (const key of keys) await bucket.delete(key);
      },
    },
  };
}
