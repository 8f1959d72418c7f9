import { type Bucket, BucketError, type Entry, type Page } from './bucket.ts';

const pageSize = 1000;

/** A bucket in this process's memory: quick, and gone with the process. */
export class MemoryBucket implements Bucket {
  readonly kind = 'memory';
  readonly #entries = new Map<string, Entry>();
  #written = 0;
  #closed = false;

  get(key: string): Entry | undefined {
    const entry = this.#open().get(check(key));
    return entry && { value: new Uint8Array(entry.value), version: entry.version };
  }

  set(key: string, value: Uint8Array): void {
    this.#write(check(key), value);
  }

  delete(key: string): void {
    this.#open().delete(check(key));
  }

  exists(key: string): boolean {
    return this.#open().has(check(key));
  }

  list(cursor?: string): Page {
    const keys = [...this.#open().keys()].sort();
    const start = cursor === undefined ? 0 : keys.findIndex((key) => key > cursor);
    if (start < 0) return { keys: [], cursor: undefined };
    const page = keys.slice(start, start + pageSize);
    return { keys: page, cursor: start + pageSize < keys.length ? page.at(-1) : undefined };
  }

  swap(key: string, expected: string | undefined, value: Uint8Array): string | undefined {
    if (this.#open().get(check(key))?.version !== expected) return undefined;
    return this.#write(key, value);
  }

  async settled(): Promise<void> {
    this.#open();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#entries.clear();
  }

  // `new Uint8Array` copies whatever it is given; `slice` of a Buffer does not.
  #write(key: string, value: Uint8Array): string {
    const version = String(++this.#written);
    this.#open().set(key, { value: new Uint8Array(value), version });
    return version;
  }

  #open(): Map<string, Entry> {
    if (this.#closed) throw new BucketError('closed', 'the bucket was closed');
    return this.#entries;
  }
}

function check(key: string): string {
  if (!key.isWellFormed()) throw new BucketError('invalid', 'a key is well-formed Unicode');
  return key;
}
