import { randomFillSync } from 'node:crypto';
import { closeSync, existsSync, fdatasync, fsync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { type Bucket, BucketError, type BucketErrorCode, type Entry, type Page } from './bucket.ts';
import { encodeKey, pageSize, checkValue } from './limits.ts';

export interface SqliteOptions {
  /**
   * When a write counts as settled. `full`, the default: when it would survive a power cut. `normal`: at once; it survives
   * the process, not the machine.
   */
  readonly sync?: 'full' | 'normal';
  /** How long to wait for another process that writes, in milliseconds. 5000 by default. */
  readonly busy?: number;
  /** Flushes a file to the disk. `fdatasync` of the system by default. */
  readonly flush?: (file: number) => Promise<void>;
}

/** Marks a file as ours: the letters `mcps`. */
const applicationId = 0x6d637073;
/** The version of the tables. */
const formatVersion = 1;

const syncFile = promisify(fdatasync);
const syncDirectory = promisify(fsync);

/** SQLite's result codes, https://www.sqlite.org/rescode.html: the low byte of an extended one. */
const codes: Readonly<Record<number, BucketErrorCode>> = {
  3: 'denied',
  5: 'unavailable',
  6: 'unavailable',
  8: 'read-only',
  11: 'corrupt',
  13: 'full',
  14: 'unavailable',
  18: 'too-large',
  23: 'denied',
  26: 'corrupt',
};

/** The system's codes, when a file is opened beside SQLite. */
const systemCodes: Readonly<Record<string, BucketErrorCode>> = {
  EACCES: 'denied',
  EISDIR: 'unavailable',
  ENOENT: 'unavailable',
  ENOSPC: 'full',
  ENOTDIR: 'unavailable',
  EPERM: 'denied',
  EROFS: 'read-only',
};

/**
 * A bucket in one SQLite file, which several processes of one machine may share.
 *
 * A write is in the write-ahead log when its method returns, and there it survives the process. SQLite runs with
 * `synchronous=NORMAL`, which flushes the log before a checkpoint and the database after it, but not at each commit
 * (https://www.sqlite.org/pragma.html#pragma_synchronous); `settled` does that, for all commits since the last time together and
 * beside the event loop. A commit is thus durable by our flush of the log, or by the checkpoint that emptied it. SQLite keeps
 * its locks on other files, and neither deletes nor replaces the log while a connection is open
 * (https://www.sqlite.org/walformat.html), so that holding the log open harms nothing.
 */
export class SqliteBucket implements Bucket {
  readonly kind = 'sqlite';
  readonly #path: string;
  readonly #database: DatabaseSync;
  readonly #log: number;
  readonly #isFull: boolean;
  readonly #flushFile: (file: number) => Promise<void>;
  readonly #get: StatementSync;
  readonly #set: StatementSync;
  readonly #delete: StatementSync;
  readonly #list: StatementSync;
  readonly #replace: StatementSync;
  readonly #insert: StatementSync;
  readonly #versions = new BigUint64Array(512);
  #nextVersion = this.#versions.length;
  #written = 0;
  #flushed = 0;
  #flushing: Promise<void> | undefined;
  #following: Promise<void> | undefined;
  #closed = false;
  #closing: Promise<void> | undefined;

  constructor(path: string, { sync = 'full', busy = 5000, flush = syncFile }: SqliteOptions = {}) {
    this.#path = path;
    this.#isFull = sync === 'full';
    this.#flushFile = flush;
    this.#try('open', () => createFile(path));
    this.#database = this.#try('open', () => openDatabase(path, busy));
    const prepare = (sql: string) => this.#database.prepare(sql);
    [this.#get, this.#set, this.#delete, this.#list, this.#replace, this.#insert] = this.#try('open', () => [
      prepare('SELECT value, version FROM entries WHERE key = ?'),
      prepare(
        'INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET version = excluded.version, value = excluded.value',
      ),
      prepare('DELETE FROM entries WHERE key = ?'),
      prepare('SELECT key FROM entries WHERE key > ? ORDER BY key LIMIT ?'),
      prepare('UPDATE entries SET version = ?, value = ? WHERE key = ? AND version = ?'),
      prepare('INSERT INTO entries VALUES (?, ?, ?) ON CONFLICT DO NOTHING'),
    ]);
    this.#get.setReadBigInts(true);
    this.#log = this.#try('open', () => openSync(`${path}-wal`, 'r+'));
    this.#written++;
  }

  get(key: string): Entry | undefined {
    const row = this.#run('read', () => this.#get.get(encodeKey(key)));
    if (row === undefined) return undefined;
    return { value: row.value as Uint8Array, version: String(row.version) };
  }

  set(key: string, value: Uint8Array): void {
    const encoded = encodeKey(key);
    checkValue(value);
    this.#run('write', () => this.#set.run(encoded, this.#version(), value));
    this.#written++;
  }

  delete(key: string): void {
    this.#run('write', () => this.#delete.run(encodeKey(key)));
    this.#written++;
  }

  exists(key: string): boolean {
    return this.#run('read', () => this.#get.get(encodeKey(key))) !== undefined;
  }

  list(cursor?: string): Page {
    // A cursor is the last key of the page before; the empty key, which has none before it, sorts after the empty blob only.
    const after = cursor === undefined ? null : Buffer.from(cursor, 'base64url');
    if (after !== null && after.toString('base64url') !== cursor) {
      throw new BucketError('invalid', 'the cursor is none that this bucket returned');
    }
    const rows = this.#run('list', () => {
      if (after !== null) return this.#list.all(after, pageSize);
      return this.#database.prepare('SELECT key FROM entries ORDER BY key LIMIT ?').all(pageSize);
    });
    const keys = rows.map((row) => row.key as Uint8Array);
    const last = keys.length === pageSize ? keys.at(-1) : undefined;
    return {
      keys: keys.map((key) => Buffer.from(key).toString()),
      cursor: last === undefined ? undefined : Buffer.from(last).toString('base64url'),
    };
  }

  swap(key: string, expected: string | undefined, value: Uint8Array): string | undefined {
    const encoded = encodeKey(key);
    checkValue(value);
    const at = expected === undefined ? undefined : versionOf(expected);
    if (at === null) {
      this.#run('write', () => undefined);
      return undefined;
    }
    const version = this.#version();
    const { changes } = this.#run('write', () =>
      at === undefined ? this.#insert.run(encoded, version, value) : this.#replace.run(version, value, encoded, at),
    );
    if (Number(changes) === 0) return undefined;
    this.#written++;
    return String(version);
  }

  settled(): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closedError());
    return this.#settle();
  }

  #settle(): Promise<void> {
    if (!this.#isFull || this.#flushed === this.#written) return Promise.resolve();
    if (this.#following !== undefined) return this.#following;
    if (this.#flushing === undefined) return this.#flush();
    // The flush under way began before the latest writes: all who come now share the next one.
    this.#following = this.#flushing.catch(() => undefined).then(() => this.#flush());
    return this.#following;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    try {
      await this.#settle();
      // A flush may be under way for writes that another one has covered.
      await this.#flushing;
    } finally {
      closeSync(this.#log);
      this.#try('close', () => this.#database.close());
    }
  }

  #flush(): Promise<void> {
    this.#following = undefined;
    const written = this.#written;
    const isFirst = this.#flushed === 0;
    this.#flushing = this.#flushFiles(isFirst)
      .then(() => {
        this.#flushed = written;
      })
      .finally(() => {
        this.#flushing = undefined;
      });
    return this.#flushing;
  }

  async #flushFiles(isFirst: boolean): Promise<void> {
    try {
      await this.#flushFile(this.#log);
      // The names of new files are in their directory.
      if (isFirst) await syncNames(dirname(this.#path));
    } catch (error) {
      throw new BucketError('failed', `cannot flush "${this.#path}": ${textOf(error)}`, { cause: error });
    }
  }

  #version(): bigint {
    if (this.#nextVersion === this.#versions.length) {
      randomFillSync(this.#versions);
      this.#nextVersion = 0;
    }
    return (this.#versions[this.#nextVersion++] ?? 0n) >> 1n;
  }

  #run<T>(what: string, run: () => T): T {
    if (this.#closed) throw this.#closedError();
    return this.#try(what, run);
  }

  #try<T>(what: string, run: () => T): T {
    try {
      return run();
    } catch (error) {
      if (error instanceof BucketError) throw error;
      throw new BucketError(codeOf(error), `cannot ${what} "${this.#path}": ${textOf(error)}`, { cause: error });
    }
  }

  #closedError(): BucketError {
    return new BucketError('closed', 'the bucket was closed');
  }
}

/** Makes the file for its owner alone before SQLite does: the log and its index take their mode from it. */
function createFile(path: string): void {
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600));
}

function openDatabase(path: string, busy: number): DatabaseSync {
  const database = new DatabaseSync(path, { timeout: busy });
  try {
    identify(database, path);
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL');
    database.exec('BEGIN IMMEDIATE');
    // Another process may have made the tables while this one waited.
    if (isEmpty(database)) {
      database.exec(
        'CREATE TABLE entries (key BLOB PRIMARY KEY NOT NULL, version INTEGER NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;' +
          `PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${formatVersion}`,
      );
    }
    database.exec('COMMIT');
    identify(database, path);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Refuses, without writing, what is not ours. */
function identify(database: DatabaseSync, path: string): void {
  if (isEmpty(database)) return;
  const number = (pragma: string) => Number(Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
  if (number('application_id') !== applicationId) {
    throw new BucketError('corrupt', `cannot open "${path}": it is a database of another application`);
  }
  const version = number('user_version');
  if (version !== formatVersion) {
    const expected = `this program reads version ${formatVersion}`;
    throw new BucketError('corrupt', `cannot open "${path}": its format has version ${version}, ${expected}`);
  }
}

function isEmpty(database: DatabaseSync): boolean {
  return database.prepare('SELECT 1 FROM sqlite_schema').get() === undefined;
}

async function syncNames(directory: string): Promise<void> {
  const file = openSync(directory, 'r');
  try {
    await syncDirectory(file);
  } finally {
    closeSync(file);
  }
}

/** The number of a version, or `null` if it is none that this bucket gives. */
function versionOf(version: string): bigint | null {
  if (!/^\d{1,19}$/.test(version)) return null;
  const number = BigInt(version);
  return number < 1n << 63n ? number : null;
}

function codeOf(error: unknown): BucketErrorCode {
  if (!(error instanceof Error)) return 'failed';
  if ('errcode' in error) return codes[Number(error.errcode) & 0xff] ?? 'failed';
  return ('code' in error ? systemCodes[String(error.code)] : undefined) ?? 'failed';
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
