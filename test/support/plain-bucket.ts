import type { Bucket, Entry } from '../../host/bucket/bucket.ts';

/** The plainest bucket: a map that can be looked into, for tests of what stands on top of one. */
export function plainBucket(): Bucket & { readonly entries: Map<string, Entry> } {
  const entries = new Map<string, Entry>();
  let writes = 0;
  const write = (key: string, value: Uint8Array) => {
    writes += 1;
    entries.set(key, { value: Uint8Array.from(value), version: String(writes) });
    return String(writes);
  };
  return {
    kind: 'plain',
    entries,
    get(key) {
      const entry = entries.get(key);
      return entry === undefined ? undefined : { ...entry, value: entry.value.slice() };
    },
    set: (key, value) => void write(key, value),
    delete: (key) => void entries.delete(key),
    exists: (key) => entries.has(key),
    list: () => ({ keys: [...entries.keys()], cursor: undefined }),
    swap: (key, expected, value) => (entries.get(key)?.version === expected ? write(key, value) : undefined),
    settled: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

/** That bucket, with `before` called ahead of every method; it may throw in the method's place. */
export function watched(bucket: Bucket, before: (method: string) => void): Bucket {
  const watch = <A extends unknown[], R>(method: string, run: (...args: A) => R) => {
    return (...args: A): R => {
      before(method);
      return run(...args);
    };
  };
  return {
    ...bucket,
    get: watch('get', bucket.get),
    set: watch('set', bucket.set),
    delete: watch('delete', bucket.delete),
    exists: watch('exists', bucket.exists),
    list: watch('list', bucket.list),
    swap: watch('swap', bucket.swap),
  };
}
