import { randomBytes } from 'node:crypto';
import { journalKey, journalPieceKey, readJournalKey } from '../src/namespace.ts';
import { tombstone } from '../src/record.ts';
import type { AnyBucket, Entry } from './bucket/bucket.ts';
import { add, type Addition, emptyJournal, eventsAfter, journalLimits } from './journal-record.ts';
import { type JournalRecord, pieceAfter, piecesIn, readJournal, type StoredEvent, streamOf } from './journal-record.ts';
import type { Log } from './log.ts';

/** How often a write that the bucket refused is tried again, and the pause before the first time, in milliseconds. */
const retries = 5;
const retryPause = 200;
/** The longest pause before a lost swap is tried again. */
const longestPause = 20;
/** How old a piece must be before a sweep may take it for an orphan, in milliseconds. */
const orphanAge = 60 * 60 * 1000;

/** A part of what follows a position in a stream. */
export interface Reading {
  /** In order; none if nothing follows yet. */
  readonly events: readonly StoredEvent[];
  /** Whether nothing follows these. */
  readonly ended: boolean;
  /** Names the connection that resumed the stream last. */
  readonly reader: string | undefined;
  /** The id of the call; `undefined` for several at once. */
  readonly call: string | number | undefined;
  /** When the process that runs the call last showed that it lives, in milliseconds since 1970. */
  readonly seen: number;
}

/** The journals of the sessions of one bucket. */
export class Journals {
  readonly #bucket: AnyBucket;
  readonly #log: Log;
  readonly #now: () => number;
  readonly #pending = new Set<Promise<unknown>>();

  constructor(bucket: AnyBucket, log: Log, now: () => number) {
    this.#bucket = bucket;
    this.#log = log;
    this.#now = now;
  }

  /** The journal of the session whose record is under `key`. */
  of(key: string): Journal {
    const pending = (work: Promise<unknown>): void => {
      this.#pending.add(work);
      void work.finally(() => this.#pending.delete(work));
    };
    return new Journal({ bucket: this.#bucket, key, log: this.#log, now: this.#now, pending });
  }

  /** Deletes what is under `key` if that is of a journal whose session is gone. Returns whether it is of a journal. */
  async sweep(key: string): Promise<boolean> {
    const meaning = readJournalKey(key);
    if (meaning === undefined) return false;
    const { record, made } = meaning;
    if (!(await isLive(this.#bucket, record)) || (made !== undefined && (await this.#isOrphan(key, record, made)))) {
      await this.#bucket.delete(key);
    }
    return true;
  }

  /** Resolves when everything that was added is stored, or was given up. */
  async settled(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  async #isOrphan(key: string, record: string, made: number): Promise<boolean> {
    if (this.#now() - made < orphanAge) return false;
    const entry = await this.#bucket.get(journalKey(record));
    // What cannot be read may still refer to it.
    return entry === undefined || piecesIn(textOf(entry))?.includes(key) === false;
  }
}

/** Deletes all that is kept of the streams of the session whose record is under `key`, when that has ended. */
export async function deleteJournal(bucket: AnyBucket, key: string): Promise<void> {
  const at = journalKey(key);
  for (;;) {
    const entry = await bucket.get(at);
    if (entry === undefined) return;
    // First for a tombstone: what is added at the same time must not leave a piece that nothing refers to.
    if ((await bucket.swap(at, entry.version, Buffer.from(tombstone))) === undefined) continue;
    for (const piece of piecesIn(textOf(entry)) ?? []) await bucket.delete(piece);
    return await bucket.delete(at);
  }
}

interface JournalOptions {
  readonly bucket: AnyBucket;
  /** The key of the session's record. */
  readonly key: string;
  readonly log: Log;
  readonly now: () => number;
  /** Hears of work that must be done before the bucket is closed. */
  readonly pending: (work: Promise<unknown>) => void;
}

/**
 * What is kept of the event streams of one session, so that a client that lost its connection can come back for the rest,
 * through any process that shares the bucket.
 *
 * Nobody waits for an event to be stored before it is sent: who has received it needs it no more. What is added while a
 * write is under way is written together with the next one. It dies with its session.
 */
export class Journal {
  readonly #options: JournalOptions;
  readonly #key: string;
  readonly #listeners = new Set<(record: JournalRecord) => void>();
  #queue: Addition[] = [];
  #queued = 0;
  #batch: Promise<Error | undefined> | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #memo: { readonly version: string; readonly record: JournalRecord } | undefined;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#key = journalKey(options.key);
  }

  /**
   * Adds to the journal. Resolves when it is stored, with what kept it from being stored. If the session is gone nothing is
   * added, and nobody is left who would miss it.
   */
  add(addition: Addition): Promise<Error | undefined> {
    this.#queue.push(addition);
    if (addition.kind === 'event') this.#bound(addition.json.length);
    this.#batch ??= this.#next();
    return this.#batch;
  }

  /** Milliseconds since 1970, by the clock of the sessions. */
  get now(): number {
    return this.#options.now();
  }

  /** Calls `listener` with the journal whenever this process stored it, until the returned function is called. */
  onStored(listener: (record: JournalRecord) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Whether the stream is known, and `position` one of its places that may have been reached. */
  async knows(stream: string, position: number): Promise<boolean> {
    const record = await this.#read();
    const state = record && streamOf(record, stream);
    // The process that writes the stream sends first: it may be ahead of what is stored.
    return state !== undefined && (!state.ended || position <= state.last);
  }

  /** A part of what follows `position`; `undefined` if the stream is not known (any more). */
  async after(stream: string, position: number): Promise<Reading | undefined> {
    for (let at = position; ; ) {
      const record = await this.#read();
      const state = record && streamOf(record, stream);
      if (record === undefined || state === undefined) return undefined;
      const { ended = false, reader, call, seen } = state;
      const piece = pieceAfter(record, stream, at);
      if (piece === undefined) return { events: eventsAfter(record.events, stream, at), ended, reader, call, seen };
      const entry = await this.#options.bucket.get(piece.at);
      if (entry !== undefined) {
        const events = eventsAfter(JSON.parse(textOf(entry)), stream, at);
        return { events, ended: ended && events.at(-1)?.[1] === state.last, reader, call, seen };
      }
      // Dropped meanwhile, and with it all that is in it.
      at = piece.last[stream] ?? at;
    }
  }

  /** Holds no more in this process than would be kept of it. */
  #bound(more: number): void {
    this.#queued += more;
    while (this.#queued > journalLimits.bytes) {
      const oldest = this.#queue.findIndex(({ kind }) => kind === 'event');
      const [dropped] = oldest === -1 ? [] : this.#queue.splice(oldest, 1);
      if (dropped?.kind !== 'event') return;
      this.#queued -= dropped.json.length;
    }
  }

  /** The next write, which holds all that is added until the one before it is done. */
  #next(): Promise<Error | undefined> {
    const written = this.#turn.then(() => {
      const additions = this.#queue;
      this.#queue = [];
      this.#queued = 0;
      this.#batch = undefined;
      return this.#write(additions);
    });
    this.#turn = written;
    this.#options.pending(written);
    return written;
  }

  async #write(additions: readonly Addition[]): Promise<Error | undefined> {
    const { bucket, log } = this.#options;
    for (let failed = 0; ; failed++) {
      try {
        await this.#swap(additions);
        // What ended is waited for by nobody but who comes back: it should outlive the machine.
        if (additions.some(({ kind }) => kind === 'end')) await bucket.settled();
        return undefined;
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        if (failed === retries) {
          log('warning', 'events not kept', { store: bucket.kind, why: error.message });
          return error;
        }
        await pause(retryPause * 2 ** failed);
      }
    }
  }

  async #swap(additions: readonly Addition[]): Promise<void> {
    const { bucket, key, now } = this.#options;
    for (let lost = 0; ; lost++) {
      const entry = await bucket.get(this.#key);
      // Only the first stream makes a journal: what is gone must not come back.
      const begins = entry === undefined && additions.some(({ kind }) => kind === 'open');
      if (entry === undefined && !(begins && (await isLive(bucket, key)))) return;
      if (isTombstone(entry)) return;
      const unique = randomBytes(12).toString('base64url');
      const newPiece = () => journalPieceKey(this.#key, now(), unique);
      const { record, before, after } = add(this.#recordOf(entry), additions, newPiece);
      if (before !== undefined) await bucket.set(before.at, Buffer.from(JSON.stringify(before.events)));
      const version = await bucket.swap(this.#key, entry?.version, Buffer.from(JSON.stringify(record)));
      if (version !== undefined) {
        for (const at of after) await bucket.delete(at);
        this.#memo = { version, record };
        // Deleted just before it was made, it would have been forgotten.
        if (begins && !(await isLive(bucket, key))) return await deleteJournal(bucket, key);
        for (const listener of [...this.#listeners]) listener(record);
        return;
      }
      if (before !== undefined) await bucket.delete(before.at);
      if (lost > 0) await pause(Math.random() * longestPause);
    }
  }

  async #read(): Promise<JournalRecord | undefined> {
    const entry = await this.#options.bucket.get(this.#key);
    return entry === undefined || isTombstone(entry) ? undefined : this.#recordOf(entry);
  }

  #recordOf(entry: Entry | undefined): JournalRecord {
    if (entry === undefined) return emptyJournal;
    if (this.#memo?.version === entry.version) return this.#memo.record;
    const record = readJournal(textOf(entry));
    this.#memo = { version: entry.version, record };
    return record;
  }
}

/** Whether a session is neither deleted nor swept. */
async function isLive(bucket: AnyBucket, key: string): Promise<boolean> {
  const entry = await bucket.get(key);
  return entry !== undefined && !isTombstone(entry);
}

function isTombstone(entry: Entry | undefined): boolean {
  return entry?.value.length === tombstone.length && textOf(entry) === tombstone;
}

function textOf({ value }: Entry): string {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('utf8');
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
