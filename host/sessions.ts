import { isUtf8 } from 'node:buffer';
import { randomBytes, randomUUID } from 'node:crypto';
import type { Beside, Change, Kind, Question, Response, View } from './transitions.ts';
import { isId, recordKey } from '../src/namespace.ts';
import type { StoredValue } from '../src/record.ts';
import type { AnyBucket, Entry } from './bucket/bucket.ts';
import { deleteJournal, type Journal, Journals } from './journal.ts';
import { fingerprint, type Log, type LogLevel } from './log.ts';
import { Session } from './session.ts';
import { SessionError, sessionErrorOf } from './session-error.ts';
import type { Transitions } from './transitions.ts';

export type { Kind, Question, Response };

/** Whose sessions are meant: part of a session's identity. */
export interface Scope {
  readonly namespace: string;
  /** The verified principal, or `undefined` where nobody is verified. */
  readonly owner: string | undefined;
}

export interface SessionsOptions {
  readonly bucket: AnyBucket;
  readonly transitions: Transitions;
  readonly log: Log;
  /** The silence after which a session or a handle expires, in milliseconds. */
  readonly sessionTtl: number;
  /** How long a request state lives, in milliseconds. */
  readonly stateTtl: number;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** What is remembered of one exact stored revision. */
interface Memo {
  readonly version: string;
  readonly view: View;
  /** The texts of the values; `undefined` for bytes that are no text. */
  readonly texts: Map<string, string | undefined>;
}

/** What this process knows of one session. May be lost without loss. */
export interface Tracked {
  readonly key: string;
  readonly id: string;
  readonly kind: Kind;
  /** The latest use that this process saw, in milliseconds since 1970. */
  used: number;
  /** Whether the record does not know of that use yet. */
  unwritten: boolean;
  /** How many requests and streams use it now. */
  users: number;
  memo: Memo | undefined;
  journal: Journal | undefined;
  /** The last of the writes that wait for each other, so that each gets its turn. */
  turn: Promise<unknown>;
  readonly ended: Promise<void>;
  readonly end: () => void;
}

/** How many sessions are remembered. */
const remembered = 4096;
/** The longest a renewal waits to be written, unless the session would expire first. */
const renewalDelay = 1000;
/** How often the sweep goes on, and how many keys it looks at then. */
const sweepInterval = 30_000;
const sweepPages = 4;
/** The longest pause before a lost swap is tried again. */
const longestPause = 20;

const nothingBeside: Beside = { before: [], after: [] };
const empty: ReadonlyMap<string, string | undefined> = new Map();

/** The sessions of one bucket: reads it, asks the core what a change comes to, swaps, and again if it lost the race. */
export class Sessions {
  readonly #bucket: AnyBucket;
  readonly #transitions: Transitions;
  readonly #log: Log;
  readonly #ttl: Record<Kind, number>;
  readonly #now: () => number;
  readonly #journals: Journals;
  readonly #tracked = new Map<string, Tracked>();
  readonly #restless = new Set<Tracked>();
  readonly #timers: NodeJS.Timeout[];
  #gathering: Promise<void> | undefined;
  #cursor: string | undefined;
  #work: Promise<void> = Promise.resolve();
  readonly #busy = new Set<string>();

  constructor({ bucket, transitions, log, sessionTtl, stateTtl, now = Date.now }: SessionsOptions) {
    for (const [name, ttl] of Object.entries({ sessionTtl, stateTtl })) {
      if (!(ttl >= 1 && Number.isFinite(ttl))) throw new TypeError(`${name}: expected 1 millisecond or more`);
    }
    this.#bucket = bucket;
    this.#transitions = transitions;
    this.#log = log;
    this.#ttl = { session: sessionTtl, handle: sessionTtl, 'request-state': stateTtl };
    this.#now = now;
    this.#journals = new Journals(bucket, log, now);
    const delay = Math.max(10, Math.min(renewalDelay, Math.floor(sessionTtl / 20)));
    this.#timers = [
      setInterval(() => this.#later('renewing', () => this.renew()), delay).unref(),
      setInterval(() => this.#later('sweeping', () => this.sweep()), sweepInterval).unref(),
    ];
  }

  /** Makes a record; resolves when it is durable. */
  async create(
    kind: Kind,
    scope: Scope,
    attributes: Readonly<Record<string, string>>,
    more: { readonly ttl?: number; readonly binding?: string } = {},
  ): Promise<Session> {
    const { ttl = this.#ttl[kind], binding = '' } = more;
    const { namespace, owner } = scope;
    const named = { kind, namespace, ttl, attributes: Object.entries(attributes), binding };
    const beginning = owner === undefined ? named : { ...named, owner };
    const made = this.#decide(() => this.#transitions.create(beginning, this.#now(), randomBytes(24)));
    const version = await this.#bucket.swap(made.key, undefined, Buffer.from(made.content));
    if (version === undefined) throw new Error('a fresh id was there already: the random generator repeats itself');
    await this.#bucket.settled();
    const tracked = this.#track(made.key, made.id, kind);
    const view = this.#decide(() => this.#transitions.examine(made.content));
    tracked.memo = { version, view, texts: new Map() };
    tracked.used = view.renewed;
    if (kind !== 'request-state') this.tell(tracked, 'info', 'session created');
    return this.#sessionOf(tracked, scope, tracked.memo);
  }

  /**
   * The live session of that id and scope, renewed. `undefined` if it never existed, expired, was terminated or deleted,
   * or belongs to somebody else: all alike to the caller, told apart in the log. An id of a shape that is never made does
   * not reach the bucket. Fails with `BucketError` if the bucket does.
   */
  async open(kind: Kind, scope: Scope, id: string): Promise<Session | undefined> {
    if (!isId(id)) return this.#reject(kind, id, '', 'missing-or-expired');
    const key = recordKey({ kind, namespace: scope.namespace, id });
    const entry = await this.#bucket.get(key);
    if (entry === undefined) {
      this.#forget(key);
      return this.#reject(kind, id, key, 'missing-or-expired');
    }
    const tracked = this.#track(key, id, kind);
    const memo = await this.#read(tracked, scope, entry);
    if ('refused' in memo) {
      if (memo.refused === 'foreign') return this.#reject(kind, id, key, 'owner-mismatch');
      this.#forget(key);
      return this.#reject(kind, id, key, 'missing-or-expired');
    }
    if (memo.view.terminated) {
      tracked.end();
      return this.#reject(kind, id, key, 'missing-or-expired');
    }
    // A request state lives its time and no longer, however often it is tried.
    if (kind !== 'request-state' && !(await this.#renewBy(tracked, scope, memo))) {
      return this.#reject(kind, id, key, 'missing-or-expired');
    }
    return this.#sessionOf(tracked, scope, memo);
  }

  /** Makes changes, on fresh data again and again until no other write came between. Resolves when they are durable. */
  async change(tracked: Tracked, scope: Scope, make: (memo: Memo | undefined) => Change[]): Promise<void> {
    await this.#gathered();
    await this.#inTurn(tracked, () => this.#swapFor(tracked, scope, make));
    await this.#bucket.settled();
  }

  /** Replaces the texts of the values by what `make` makes of the fresh ones; gives back what was written. */
  async update(
    tracked: Tracked,
    scope: Scope,
    make: (texts: ReadonlyMap<string, string | undefined>) => Map<string, string | undefined>,
  ): Promise<Map<string, string | undefined>> {
    let next = new Map<string, string | undefined>();
    await this.#gathered();
    await this.#inTurn(tracked, async () => {
      const replace = (memo: Memo | undefined): Change[] => {
        const before = memo?.texts ?? empty;
        next = make(before);
        const wanted: Record<string, string | null> = {};
        // What stays as it is need not travel; a large value would be written again.
        for (const [key, text] of next) {
          const value = text === undefined || before.get(key) === text ? null : text;
          Object.defineProperty(wanted, key, { value, enumerable: true });
        }
        return [{ tag: 'replace', val: JSON.stringify(wanted) }];
      };
      await this.#swapFor(tracked, scope, replace, () => next);
    });
    await this.#bucket.settled();
    return next;
  }

  /** Deletes a session and everything of it. Does nothing if it is gone. */
  async delete(tracked: Tracked, scope: Scope): Promise<void> {
    await this.#inTurn(tracked, async () => {
      for (;;) {
        const entry = await this.#bucket.get(tracked.key);
        if (entry === undefined) return;
        const { key } = tracked;
        const content = textOf(entry.value);
        const used = this.#usedBy(tracked);
        const removal = this.#decide(() => this.#transitions.delete(key, content, this.#now(), used, scope.owner));
        if (await this.#remove(key, entry.version, removal)) return;
      }
    });
    await this.#bucket.settled();
    this.end(tracked, 'session deleted');
  }

  /** What the bucket says now; `undefined` if the session is gone. */
  async look(tracked: Tracked, scope: Scope): Promise<View | undefined> {
    const entry = await this.#bucket.get(tracked.key);
    if (entry === undefined) return undefined;
    const memo = await this.#read(tracked, scope, entry);
    return 'refused' in memo ? undefined : memo.view;
  }

  /** What is kept of a session's event streams. */
  journal(tracked: Tracked): Journal {
    tracked.journal ??= this.#journals.of(tracked.key);
    return tracked.journal;
  }

  deleteJournal({ key }: Tracked): Promise<void> {
    return deleteJournal(this.#bucket, key);
  }

  use(tracked: Tracked): () => void {
    tracked.users++;
    this.#restless.add(tracked);
    let isDone = false;
    return () => {
      if (isDone) return;
      isDone = true;
      tracked.users--;
      tracked.used = Math.max(tracked.used, this.#now());
      tracked.unwritten = true;
    };
  }

  /** Tells whoever waits that a session ended. */
  end(tracked: Tracked, event: string): void {
    this.tell(tracked, 'info', event);
    tracked.end();
    this.#forget(tracked.key);
  }

  /** Writes the renewals that wait, and ends the sessions in use that others ended. */
  async renew(): Promise<void> {
    for (const tracked of [...this.#restless]) {
      if (tracked.users === 0) this.#restless.delete(tracked);
      await this.#inTurn(tracked, () => this.#settleUse(tracked));
    }
  }

  /** Removes a bounded part of what expired or was orphaned, and goes on from there the next time. */
  async sweep(): Promise<void> {
    for (let pages = 0; pages < sweepPages; pages++) {
      const page = await this.#bucket.list(this.#cursor);
      for (const key of page.keys) await this.#sweepKey(key);
      this.#cursor = page.cursor;
      if (page.cursor === undefined) return;
    }
  }

  /** Resolves when every write that was made is durable. */
  settled(): Promise<void> {
    return this.#bucket.settled();
  }

  /** Whether the bucket answers; fails with `BucketError` if not. */
  async probe(): Promise<void> {
    await this.#bucket.exists('mcp-session/health');
  }

  /** Stops, with every renewal written. The bucket stays open: it is its maker's. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    await this.#work;
    await this.renew();
    await this.#journals.settled();
    await this.#bucket.settled();
  }

  tell(tracked: Tracked, level: LogLevel, event: string): void {
    this.#log(level, event, this.#fields(tracked.kind, tracked.id, tracked.key));
  }

  #fields(kind: Kind, id: string, key: string) {
    const store = this.#bucket.kind;
    // A header arrives as one character a byte: hash the bytes as they were received.
    const isBytes = !/[^\0-\xff]/.test(id);
    const session = fingerprint(Buffer.from(id, isBytes ? 'latin1' : 'utf8'));
    return { store, ttl: this.#ttl[kind], session, key: key === '' ? undefined : fingerprint(key) };
  }

  #reject(kind: Kind, id: string, key: string, reason: string): undefined {
    const event = kind === 'request-state' ? 'request state rejected' : 'session rejected';
    this.#log('warning', event, { ...this.#fields(kind, id, key), reason });
    return undefined;
  }

  #sessionOf(tracked: Tracked, scope: Scope, memo: Memo): Session {
    return new Session(this, tracked, scope, memo.texts, memo.view.attributes);
  }

  #track(key: string, id: string, kind: Kind): Tracked {
    let tracked = this.#tracked.get(key);
    if (tracked === undefined) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const turn = Promise.resolve();
      tracked = {
        key,
        id,
        kind,
        used: 0,
        unwritten: false,
        users: 0,
        memo: undefined,
        journal: undefined,
        turn,
        ended: promise,
        end: resolve,
      };
    } else {
      this.#tracked.delete(key);
    }
    // Least lately used first.
    this.#tracked.set(key, tracked);
    if (this.#tracked.size > remembered) this.#forgetOldest();
    return tracked;
  }

  #forgetOldest(): void {
    for (const [key, { users, unwritten }] of this.#tracked) {
      if (users > 0 || unwritten) continue;
      this.#tracked.delete(key);
      return;
    }
  }

  #forget(key: string): void {
    const tracked = this.#tracked.get(key);
    if (tracked === undefined) return;
    tracked.end();
    this.#restless.delete(tracked);
    this.#tracked.delete(key);
  }

  #usedBy({ used, users }: Tracked): number {
    return users > 0 ? Math.max(used, this.#now()) : used;
  }

  /** Reads a stored revision, or remembers what it said. Only whether it is live depends on the time. */
  async #read(tracked: Tracked, scope: Scope, entry: Entry): Promise<Memo | { readonly refused: string }> {
    const { memo } = tracked;
    const used = this.#usedBy(tracked);
    if (memo?.version === entry.version) {
      if ((memo.view.owner ?? undefined) !== scope.owner) return { refused: 'foreign' };
      if (this.#now() >= Math.max(memo.view.renewed, used) + memo.view.ttl) return { refused: 'expired' };
      return memo;
    }
    const content = textOf(entry.value);
    let view: View;
    try {
      view = this.#transitions.inspect(content, this.#now(), used, scope.owner);
    } catch (error) {
      const tag = refusalOf(error)?.tag;
      if (tag === 'expired' || tag === 'deleted' || tag === 'foreign') return { refused: tag };
      throw failureOf(error);
    }
    const texts = await this.#load(view.values);
    // A value that is not there any more was replaced meanwhile: so was the record.
    if (texts === undefined) {
      const fresh = await this.#bucket.get(tracked.key);
      return fresh === undefined ? { refused: 'deleted' } : this.#read(tracked, scope, fresh);
    }
    tracked.memo = { version: entry.version, view, texts };
    return tracked.memo;
  }

  async #load(values: string): Promise<Map<string, string | undefined> | undefined> {
    const texts = new Map<string, string | undefined>();
    const stored: Record<string, StoredValue> = JSON.parse(values);
    for (const key of Object.keys(stored)) {
      const value = stored[key];
      if (typeof value === 'object' && 'at' in value) {
        const entry = await this.#bucket.get(value.at);
        if (entry === undefined) return undefined;
        texts.set(key, isUtf8(entry.value) ? textOf(entry.value) : undefined);
      } else {
        texts.set(key, typeof value === 'string' ? value : undefined);
      }
    }
    return texts;
  }

  /** Renews a session that was just read; `false` if it ended meanwhile. */
  async #renewBy(tracked: Tracked, scope: Scope, memo: Memo): Promise<boolean> {
    const now = this.#now();
    tracked.used = Math.max(tracked.used, now);
    tracked.unwritten = true;
    this.#restless.add(tracked);
    // With more than half of its life left no other process can take it for expired before the renewal is written.
    if (now < memo.view.renewed + memo.view.ttl / 2) return true;
    try {
      await this.change(tracked, scope, () => []);
      return true;
    } catch (error) {
      if (error instanceof SessionError && error.code === 'gone') return false;
      throw error;
    }
  }

  /**
   * Waits until the requests that came together have come this far, so that their changes are made one after the other: the
   * component is fast while the processor's caches hold it, and slow when something else comes between.
   */
  #gathered(): Promise<void> {
    this.#gathering ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#gathering = undefined;
        resolve();
      });
    });
    return this.#gathering;
  }

  /** Writes of one session wait for each other here: each gets its turn, whoever else is quicker. */
  #inTurn<T>(tracked: Tracked, run: () => Promise<T>): Promise<T> {
    const turn = tracked.turn.then(run, run);
    tracked.turn = turn.catch(() => undefined);
    return turn;
  }

  async #swapFor(
    tracked: Tracked,
    scope: Scope,
    make: (memo: Memo | undefined) => Change[],
    textsAfter?: () => Map<string, string | undefined>,
  ): Promise<void> {
    const { key } = tracked;
    for (let lost = 0; ; lost++) {
      const entry = await this.#bucket.get(key);
      if (entry === undefined) throw this.#gone(tracked);
      let { memo } = tracked;
      if (memo?.version !== entry.version) memo = undefined;
      if (textsAfter !== undefined) {
        const read = await this.#read(tracked, scope, entry);
        if ('refused' in read) throw this.#gone(tracked);
        memo = read;
      }
      const changes = make(memo);
      const content = textOf(entry.value);
      const now = this.#now();
      const used = this.#usedBy(tracked);
      const outcome = this.#decide(() =>
        this.#transitions.apply(key, content, now, used, scope.owner, changes, randomUUID()),
      );
      const { before, after } = outcome.beside ?? nothingBeside;
      for (const [at, value] of before) await this.#bucket.set(at, bytesOf(value));
      const version = await this.#bucket.swap(key, entry.version, Buffer.from(outcome.content));
      if (version !== undefined) {
        for (const at of after) await this.#bucket.delete(at);
        const written = Math.max(used, changes.length > 0 ? now : 0);
        tracked.used = Math.max(tracked.used, written);
        tracked.unwritten = tracked.used > written;
        tracked.memo = memo && memoAfter(memo, version, changes, written, textsAfter);
        return;
      }
      for (const [at] of before) await this.#bucket.delete(at);
      this.tell(tracked, 'debug', 'conflict retried');
      if (lost > 0) await pause(Math.random() * Math.min(longestPause, 2 ** Math.min(lost, 5)));
    }
  }

  #gone(tracked: Tracked): SessionError {
    this.#forget(tracked.key);
    return new SessionError('gone', 'the session is gone: it expired or was deleted');
  }

  /** Writes the renewal of a session that was used, and finds out whether others ended it. */
  async #settleUse(tracked: Tracked): Promise<void> {
    const { key, memo } = tracked;
    const isDue = tracked.users > 0 && (memo === undefined || this.#now() > memo.view.renewed + memo.view.ttl / 3);
    const entry = await this.#bucket.get(key);
    if (entry === undefined) return this.#forget(key);
    if (entry.version !== memo?.version || tracked.unwritten || isDue) {
      const content = textOf(entry.value);
      try {
        const { owner, terminated } = this.#transitions.examine(content);
        if (terminated) return this.#forget(key);
        if (tracked.unwritten || isDue) {
          await this.#swapFor(tracked, { namespace: '', owner: owner ?? undefined }, () => []);
          this.tell(tracked, 'debug', 'session renewed');
        }
      } catch (error) {
        if (error instanceof SessionError || refusalOf(error) !== undefined) return this.#forget(key);
        throw error;
      }
    }
  }

  async #sweepKey(key: string): Promise<void> {
    const meaning = this.#transitions.readKey(key);
    if (meaning == null) return void (await this.#journals.sweep(key));
    if (meaning.tag === 'of-value') {
      const entry = await this.#bucket.get(meaning.val);
      const content = entry === undefined ? undefined : textOf(entry.value);
      if (this.#transitions.orphaned(key, content, this.#now())) await this.#bucket.delete(key);
      return;
    }
    const tracked = this.#tracked.get(key);
    if (tracked !== undefined && (tracked.users > 0 || tracked.unwritten)) return;
    const entry = await this.#bucket.get(key);
    if (entry === undefined) return;
    try {
      const removal = this.#transitions.sweep(key, textOf(entry.value), this.#now());
      if (removal != null && (await this.#remove(key, entry.version, removal))) {
        this.#log('debug', 'session swept', this.#fields(meaning.val.kind, meaning.val.id, key));
        this.#forget(key);
      }
    } catch (error) {
      // What a later version wrote is not ours to remove.
      if (refusalOf(error)?.tag !== 'unreadable') throw error;
    }
  }

  /** Swaps a record for its tombstone, so that nobody revives it, and deletes what was of it. */
  async #remove(key: string, version: string, removal: { content: string; after: string[] }): Promise<boolean> {
    if ((await this.#bucket.swap(key, version, Buffer.from(removal.content))) === undefined) return false;
    await deleteJournal(this.#bucket, key);
    for (const at of removal.after) await this.#bucket.delete(at);
    return true;
  }

  #decide<T>(decide: () => T): T {
    try {
      return decide();
    } catch (error) {
      throw failureOf(error);
    }
  }

  /** Work of a timer. What is still under way when its time comes again is not begun a second time. */
  #later(what: string, run: () => Promise<void>): void {
    if (this.#busy.has(what)) return;
    this.#busy.add(what);
    this.#work = this.#work
      .then(run)
      .catch((error: unknown) => {
        this.#log('error', `${what} failed`, {
          store: this.#bucket.kind,
          why: error instanceof Error ? error.message : '',
        });
      })
      .finally(() => this.#busy.delete(what));
  }
}

/** What the revision just written says, as far as that is known without asking the core again. */
function memoAfter(
  memo: Memo,
  version: string,
  changes: Change[],
  written: number,
  textsAfter?: () => Map<string, string | undefined>,
): Memo | undefined {
  if (changes.some(({ tag }) => tag !== 'replace')) return undefined;
  const view = { ...memo.view, renewed: Math.max(memo.view.renewed, written) };
  return { version, view, texts: textsAfter?.() ?? memo.texts };
}

function refusalOf(thrown: unknown): { tag: string; val?: unknown } | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('tag' in thrown)) return undefined;
  return typeof thrown.tag === 'string' ? (thrown as { tag: string }) : undefined;
}

function failureOf(thrown: unknown): unknown {
  const refusal = refusalOf(thrown);
  return refusal === undefined ? thrown : sessionErrorOf(refusal);
}

function textOf(value: Uint8Array): string {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('utf8');
}

function bytesOf(value: { tag: 'text'; val: string } | { tag: 'bytes'; val: Uint8Array }): Uint8Array {
  return value.tag === 'text' ? Buffer.from(value.val) : value.val;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
