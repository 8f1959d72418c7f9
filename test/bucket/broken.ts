import { type Bucket, BucketError, type Entry, type Page } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';

/** A bucket that is broken in one way, and what the contract says of it. */
export interface Broken {
  readonly name: string;
  make(): Bucket;
  /** The cases that must catch it. */
  readonly caught: readonly string[];
}

const absent = 'has nothing under a key that was never written';
const last = 'holds what was written last';
const empty = 'tells an empty value from none';
const copyIn = 'keeps its own copy of the bytes it was given';
const copyOut = 'hands out bytes that are the caller’s own';
const everyByte = 'keeps every byte, whether text or not';
const large = 'keeps a value of 4 MiB';
const anyKey = 'takes any well-formed text for a key, and no two for one';
const listed = 'lists keys exactly as they were written';
const noText = 'refuses a key that is no text, and goes on';
const deletes = 'deletes a key and no other, and does not mind if there is none';
const pages = 'lists every key of a large bucket, while others come and go';
const create = 'writes what is absent only if it is absent';
const swaps = 'swaps at the version that was read and at no other';
const again = 'takes equal bytes written again for another write';
const revived = 'does not swap what was deleted, nor what was made anew';
const oneWins = 'lets one of many swaps from one version win';
const counts = 'counts exactly when many swap and try again';
const settles = 'settles what was written';
const emptyList = 'lists an empty bucket in one page';
const foreignCursor = 'refuses a cursor it never gave, or lists only what it holds';
const foreignVersion = 'does not swap at a version it never gave';
const view = 'stores the bytes of a view, not of the memory under it';
const closedAtOnce = 'may be closed twice at once';
const closed = 'says that it was closed, and may be closed again';

class Aliasing extends MemoryBucket {
  readonly #kept = new Map<string, Uint8Array>();
  override set(key: string, value: Uint8Array): void {
    super.set(key, value);
    this.#kept.set(key, value);
  }
  override get(key: string): Entry | undefined {
    const entry = super.get(key);
    const value = this.#kept.get(key);
    return entry && value ? { ...entry, value } : entry;
  }
}

class Mapping extends MemoryBucket {
  readonly #map: (key: string) => string;
  constructor(map: (key: string) => string) {
    super();
    this.#map = map;
  }
  override get(key: string): Entry | undefined {
    return super.get(this.#map(key));
  }
  override set(key: string, value: Uint8Array): void {
    super.set(this.#map(key), value);
  }
}

class PagesByIndex extends MemoryBucket {
  override list(cursor = '0'): Page {
    const keys: string[] = [];
    for (let page = super.list(); ; page = super.list(page.cursor)) {
      keys.push(...page.keys);
      if (page.cursor === undefined) break;
    }
    const next = Number(cursor) + 500;
    return { keys: keys.slice(Number(cursor), next), cursor: next < keys.length ? String(next) : undefined };
  }
}

const over = (change: (bucket: MemoryBucket) => Partial<Bucket>) => () => {
  const bucket = new MemoryBucket();
  return Object.assign(bucket, change(new Proxy(bucket, original)));
};

/** Reaches the methods of the class, past those that replaced them on the object. */
const original: ProxyHandler<MemoryBucket> = {
  get: (bucket, name) => {
    const member = Reflect.get(MemoryBucket.prototype, name, bucket);
    return typeof member === 'function' ? member.bind(bucket) : member;
  },
};

export const brokenBuckets: readonly Broken[] = [
  {
    name: 'invents a value',
    make: over((is) => ({ get: (key) => is.get(key) ?? { value: new Uint8Array(), version: '0' } })),
    caught: [absent],
  },
  {
    name: 'keeps the first value',
    make: over((is) => ({ set: (key, value) => (is.exists(key) ? undefined : is.set(key, value)) })),
    caught: [last],
  },
  {
    name: 'takes empty for none',
    make: over((is) => ({ get: (key) => (is.get(key)?.value.length ? is.get(key) : undefined) })),
    caught: [empty],
  },
  { name: 'hands out and keeps references', make: () => new Aliasing(), caught: [copyIn, copyOut] },
  {
    name: 'passes values through text',
    make: over((is) => ({ set: (key, value) => is.set(key, Buffer.from(Buffer.from(value).toString())) })),
    caught: [everyByte],
  },
  {
    name: 'cuts values at 1 MiB',
    make: over((is) => ({ set: (key, value) => is.set(key, value.subarray(0, 1024 * 1024)) })),
    caught: [large],
  },
  { name: 'ignores case', make: () => new Mapping((key) => key.toLowerCase()), caught: [anyKey, listed] },
  { name: 'cuts keys at NUL', make: () => new Mapping((key) => key.split('\0')[0] ?? ''), caught: [anyKey] },
  { name: 'normalises Unicode', make: () => new Mapping((key) => key.normalize()), caught: [anyKey] },
  { name: 'cuts long keys', make: () => new Mapping((key) => key.slice(0, 1000)), caught: [anyKey] },
  { name: 'repairs keys that are no text', make: () => new Mapping((key) => key.toWellFormed()), caught: [noText] },
  {
    name: 'deletes by prefix',
    make: over((is) => ({
      delete(key) {
        for (const other of is.list().keys) if (other.startsWith(key)) is.delete(other);
      },
    })),
    caught: [deletes],
  },
  {
    name: 'fails to delete what is not there',
    make: over((is) => ({
      delete(key) {
        if (!is.exists(key)) throw new BucketError('failed', 'no such key');
        is.delete(key);
      },
    })),
    caught: [deletes],
  },
  { name: 'pages by index', make: () => new PagesByIndex(), caught: [pages] },
  {
    name: 'lists the first page alone',
    make: over((is) => ({ list: () => ({ ...is.list(), cursor: undefined }) })),
    caught: [pages],
  },
  {
    name: 'writes without looking',
    make: over((is) => ({
      swap(key, _, value) {
        is.set(key, value);
        return is.get(key)?.version;
      },
    })),
    caught: [create, swaps, again, revived, oneWins],
  },
  {
    name: 'compares bytes in place of versions',
    make: over((is) => ({
      get(key) {
        const entry = is.get(key);
        return entry && { ...entry, version: Buffer.from(entry.value).toString('hex') };
      },
      swap(key, expected, value) {
        const entry = is.get(key);
        if ((entry && Buffer.from(entry.value).toString('hex')) !== expected) return undefined;
        is.set(key, value);
        return Buffer.from(value).toString('hex');
      },
    })),
    caught: [again, revived],
  },
  {
    name: 'swaps without telling that it lost',
    make: over((is) => ({ swap: (key, expected, value) => is.swap(key, expected, value) ?? '0' })),
    caught: [create, swaps, oneWins, counts],
  },
  {
    name: 'fails to settle',
    make: over(() => ({ settled: () => Promise.reject(new BucketError('failed', 'cannot flush')) })),
    caught: [settles],
  },
  {
    name: 'pages once too often',
    make: over((is) => ({
      list: (cursor) => (cursor === undefined ? { ...is.list(), cursor: '\uffff' } : is.list(cursor)),
    })),
    caught: [emptyList],
  },
  {
    name: 'breaks on a cursor it never gave',
    make: over((is) => ({ list: (cursor) => is.list(cursor === undefined ? cursor : JSON.parse(cursor)) })),
    caught: [foreignCursor],
  },
  {
    name: 'breaks on a version it never gave',
    make: over((is) => ({
      swap: (key, expected, value) => is.swap(key, expected === undefined ? expected : String(BigInt(expected)), value),
    })),
    caught: [foreignVersion],
  },
  {
    name: 'stores the memory under a view',
    make: over((is) => ({ set: (key, value) => is.set(key, new Uint8Array(value.buffer)) })),
    caught: [view],
  },
  {
    name: 'fails when it closes again',
    make: over((is) => ({
      async close() {
        is.get('k');
        await is.close();
      },
    })),
    caught: [closedAtOnce, closed],
  },
  { name: 'goes on after it was closed', make: over(() => ({ close: async () => undefined })), caught: [closed] },
];
