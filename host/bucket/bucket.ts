/** A value and the version under which it was written. */
export interface Entry {
  /** The bytes. The caller owns them: changing them changes nothing in the bucket. */
  readonly value: Uint8Array;
  /**
   * Names this very write. Two writes never share a version, also when they write equal bytes, and also when the
   * key was deleted in between. Opaque: compare for equality, nothing else.
   */
  readonly version: string;
}

/** One page of keys. */
export interface Page {
  /** Keys in any order. A page may be empty although more follow. */
  readonly keys: string[];
  /** Where the next page begins; `undefined` on the last page. */
  readonly cursor: string | undefined;
}

/** What a bucket method may return: its result, or a promise of it. */
export type Awaitable<T> = T | Promise<T>;

/**
 * A flat map from string keys to bytes.
 *
 * Any well-formed Unicode string is a key, NUL included, and any bytes are a value. A bucket knows no session, no JSON
 * and no expiry. Every method throws {@link BucketError} when the store behind it fails, and nothing else.
 *
 * Every method is synchronous, so that a component may call it in the middle of its own call, where a promise
 * would arrive as an empty value. {@link AsyncBucket} is the same shape in promises.
 */
export interface Bucket {
  /** What kind of store this is, for logs: `memory`, `sqlite`, … */
  readonly kind: string;
  /** The entry last written under `key`, or `undefined` if there is none. */
  get(key: string): Entry | undefined;
  /** Writes `value` under `key`, replacing what was there. Copies the bytes before it returns. */
  set(key: string, value: Uint8Array): void;
  /** Removes `key`. Does nothing if there is no such key. */
  delete(key: string): void;
  /** Whether something is stored under `key`. */
  exists(key: string): boolean;
  /**
   * Keys of the bucket, a page at a time. `cursor` is one that an earlier page returned; without it the listing begins
   * at the start. A key that is in the bucket during the whole listing appears in it at least once.
   */
  list(cursor?: string): Page;
  /**
   * Writes `value` under `key` only if the key still is as it was read: at `expected`, or absent if `expected` is
   * `undefined`. Returns the new version, or `undefined` if another write came first; then nothing was written.
   */
  swap(key: string, expected: string | undefined, value: Uint8Array): string | undefined;
  /**
   * Resolves when every write that returned before this call would survive a power cut, or whatever less the bucket
   * was opened to promise. Calls that come together share one disk flush.
   */
  settled(): Promise<void>;
  /** Gives back files and connections. Later calls throw `BucketError` with code `closed`. Closing twice is harmless. */
  close(): Promise<void>;
}

/** {@link Bucket} over a store that answers later. A write has settled when its promise resolves. */
export interface AsyncBucket {
  readonly kind: string;
  get(key: string): Promise<Entry | undefined>;
  set(key: string, value: Uint8Array): Promise<void>;
  delete(key: string): Promise<void>;
  exists(key: string): Promise<boolean>;
  list(cursor?: string): Promise<Page>;
  swap(key: string, expected: string | undefined, value: Uint8Array): Promise<string | undefined>;
  settled(): Promise<void>;
  close(): Promise<void>;
}

/** A bucket of either kind. */
export type AnyBucket = Bucket | AsyncBucket;

/**
 * Why a bucket failed.
 *
 * - `unavailable`: the store does not answer, or is busy beyond its limit; trying again later may help
 * - `full`: no space left for the write
 * - `read-only`: the store can be read, not written
 * - `denied`: the store refuses this process
 * - `corrupt`: what is stored is not what this bucket writes
 * - `too-large`: the key or value exceeds a limit of this bucket
 * - `invalid`: the key is not well-formed Unicode, or the cursor is none of this bucket's
 * - `closed`: the bucket was closed
 * - `failed`: anything else
 */
export type BucketErrorCode =
  | 'unavailable'
  | 'full'
  | 'read-only'
  | 'denied'
  | 'corrupt'
  | 'too-large'
  | 'invalid'
  | 'closed'
  | 'failed';

/** What every bucket throws. The message says what was tried and what stopped it, and holds no key and no value. */
export class BucketError extends Error {
  readonly code: BucketErrorCode;

  constructor(code: BucketErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BucketError';
    this.code = code;
  }
}
