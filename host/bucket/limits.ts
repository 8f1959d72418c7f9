import { BucketError } from './bucket.ts';

/** The longest key, in bytes of UTF-8. */
export const maxKey = 4096;
/** The largest value, in bytes. */
export const maxValue = 16 * 1024 * 1024;
/** How many keys a page holds. */
export const pageSize = 1000;

const encoder = new TextEncoder();

/** The UTF-8 of a key. */
export function encodeKey(key: string): Uint8Array {
  checkKey(key);
  return encoder.encode(key);
}

/** Refuses what is no key. */
export function checkKey(key: string): void {
  if (!key.isWellFormed()) throw new BucketError('invalid', 'a key: expected well-formed Unicode');
  if (key.length * 3 > maxKey && Buffer.byteLength(key) > maxKey) {
    throw new BucketError('too-large', `a key has at most ${maxKey} bytes`);
  }
}

/** Refuses what is too large for a value. */
export function checkValue(value: Uint8Array): void {
  if (value.length > maxValue) throw new BucketError('too-large', `a value has at most ${maxValue} bytes`);
}
