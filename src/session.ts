import type { ElicitRequest, ElicitResult } from 'mcp:session/elicitation@0.1.0';
import type { Scope } from 'mcp:session/sessions@0.1.0';
import type { Change, Outcome, Removal, Value } from 'mcp:session/transitions@0.1.0';
import { now as monotonicNow, subscribeDuration } from 'wasi:clocks/monotonic-clock@0.2.10';
import { now as wallNow } from 'wasi:clocks/wall-clock@0.2.10';
import type { Pollable } from 'wasi:io/poll@0.2.10';
import type { OutputStream } from 'wasi:io/streams@0.2.10';
import { Cas, swap } from 'wasi:keyvalue/atomics@0.2.0-draft2';
import { deleteMany } from 'wasi:keyvalue/batch@0.2.0-draft2';
import type { Bucket } from 'wasi:keyvalue/store@0.2.0-draft2';
import { getRandomBytes } from 'wasi:random/random@0.2.10';
import { fromBase64Url, toBase64Url } from './bytes.ts';
import { questionOf, resultOf } from './elicitation.ts';
import { casErrorOf, Declared, sessionErrorOf, streamErrorOf } from './errors.ts';
import { limits } from './limits.ts';
import { isId, recordKey } from './namespace.ts';
import { own, type StoredQuestion, type StoredRecord, type StoredValue } from './record.ts';
import * as transitions from './transitions.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The longest a waiting future leaves the bucket alone: an answer stored elsewhere is found within this. */
const lookAgainNs = 100_000_000n;

const unscoped: Scope = { namespace: '', owner: undefined };

/** What a session and its futures share. A future outlives neither the session's bucket nor its closing. */
class Place {
  readonly key: string;
  readonly id: string;
  readonly owner: string | undefined;
  bucket: Bucket | undefined;

  constructor(bucket: Bucket, id: string, scope: Scope) {
    this.bucket = bucket;
    this.id = id;
    this.owner = scope.owner ?? undefined;
    this.key = recordKey({ kind: 'session', namespace: scope.namespace, id });
  }

  /** The bucket of an open session. */
  open(): Bucket {
    if (this.bucket === undefined) throw new Declared({ tag: 'unexpected', val: 'the session was closed' });
    return this.bucket;
  }

  read(): string {
    const bytes = this.open().get(this.key);
    if (bytes == null) throw new Declared({ tag: 'no-such-session' });
    return decoder.decode(bytes);
  }

  /** The record, if the session is live. */
  inspect(): StoredRecord {
    return transitions.readLive(this.read(), now(), 0, this.owner);
  }

  /** Makes changes until no other write comes between reading and writing. */
  change(changes: Change[]): void {
    this.swapFor((content) => {
      const time = now();
      return transitions.applyTo(transitions.readLive(content, time, 0, this.owner), this.key, time, changes, nonce);
    });
  }

  /** Swaps the record for what `decide` makes of it; on fresh data again if another write came first. */
  swapFor(decide: (content: string) => Outcome | Removal | undefined): void {
    const bucket = this.open();
    let cas = Cas.new(bucket, this.key);
    for (;;) {
      let next: Outcome | Removal | undefined;
      try {
        const bytes = cas.current();
        if (bytes == null) throw new Declared({ tag: 'no-such-session' });
        next = decide(decoder.decode(bytes));
      } catch (error) {
        cas[Symbol.dispose]();
        throw error;
      }
      if (next === undefined) return cas[Symbol.dispose]();
      const before = 'after' in next ? [] : (next.beside?.before ?? []);
      const after = 'after' in next ? next.after : (next.beside?.after ?? []);
      for (const [key, value] of before) bucket.set(key, bytesOf(value));
      try {
        // The swap consumes the cas, whatever comes of it.
        swap(cas, encoder.encode(next.content));
      } catch (error) {
        const failure = casErrorOf(error);
        if (failure?.tag !== 'cas-failed') throw error;
        for (const [key] of before) bucket.delete(key);
        cas = failure.val as Cas;
        continue;
      }
      // A failure from here on leaves orphans for the sweep; the change itself is made.
      if (after.length > 0) deleteMany(bucket, after);
      return;
    }
  }

  load(value: StoredValue | undefined): Uint8Array | undefined {
    if (value === undefined) return undefined;
    if (typeof value === 'string') return encoder.encode(value);
    if ('base64' in value) return fromBase64Url(value.base64);
    const bytes = this.open().get(value.at);
    return bytes ?? undefined;
  }
}

export class FutureElicitResult {
  readonly #place: Place;
  readonly #question: string;
  readonly #until: number;
  #result: ElicitResult | undefined;
  /** What `subscribe` found. Whoever then asks hears it, also if the bucket works again: asking does not wait then. */
  #found: ElicitResult | undefined;

  constructor(place: Place, question: string, until: number) {
    this.#place = place;
    this.#question = question;
    this.#until = until;
  }

  subscribe(): Pollable {
    this.#found = this.#look();
    return subscribeDuration(this.#found === undefined ? lookAgainNs : 0n);
  }

  elicitResult(): ElicitResult {
    const found = this.#found;
    this.#found = undefined;
    if (found !== undefined) return found;
    // A wall clock that is set back must not make this wait longer than the question lives.
    const last = monotonicNow() + BigInt(Math.max(0, Math.ceil(this.#until - now()))) * 1_000_000n;
    for (;;) {
      const result = this.#look();
      if (result !== undefined) return result;
      if (monotonicNow() >= last) return this.#settle({ tag: 'none', val: { tag: 'expired' } });
      const pollable = subscribeDuration(lookAgainNs);
      pollable.block();
      pollable[Symbol.dispose]?.();
    }
  }

  #settle(result: ElicitResult): ElicitResult {
    this.#result = result;
    return result;
  }

  #look(): ElicitResult | undefined {
    if (this.#result !== undefined) return this.#result;
    if (this.#place.bucket === undefined) return this.#settle({ tag: 'none', val: { tag: 'session-closed' } });
    let question: StoredQuestion | undefined;
    try {
      const record = this.#place.inspect();
      question = own(record.questions, this.#question);
      const answered = question === undefined ? undefined : resultOf(question);
      if (answered !== undefined) return this.#settle(answered);
      if (record.ended !== undefined) return this.#settle({ tag: 'none', val: { tag: 'session-ended' } });
    } catch (thrown) {
      const error = sessionErrorOf(thrown);
      if (error.tag === 'no-such-session') return this.#settle({ tag: 'none', val: { tag: 'session-ended' } });
      // Not settled: the bucket may answer the next time.
      return { tag: 'none', val: { tag: 'store-failed', val: textOf(error) } };
    }
    if (question === undefined || question.until <= now()) {
      return this.#settle({ tag: 'none', val: { tag: 'expired' } });
    }
    return undefined;
  }

  [Symbol.dispose](): void {}
}

export class Session {
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  static initialize(bucket: Bucket): Session {
    return Session.initializeIn(bucket, unscoped, undefined);
  }

  static initializeIn(bucket: Bucket, scope: Scope, ttl: bigint | undefined): Session {
    return owning(bucket, () => {
      const { id, content } = transitions.create(
        {
          kind: 'session',
          namespace: scope.namespace,
          owner: scope.owner,
          ttl: ttl == null ? limits.sessionTtl : Number(ttl),
          attributes: [],
          binding: '',
        },
        now(),
        getRandomBytes(24n),
      );
      const place = new Place(bucket, id, scope);
      const cas = Cas.new(bucket, place.key);
      swap(cas, encoder.encode(content));
      return new Session(place);
    });
  }

  static open(bucket: Bucket, id: string): Session {
    return Session.openIn(bucket, unscoped, id);
  }

  static openIn(bucket: Bucket, scope: Scope, id: string): Session {
    return owning(bucket, () => {
      if (!isId(id)) throw new Declared({ tag: 'no-such-session' });
      const place = new Place(bucket, id, scope);
      place.change([{ tag: 'renew' }]);
      return new Session(place);
    });
  }

  static close(session: Session): Bucket {
    return session.#release();
  }

  static delete(session: Session): Bucket {
    const place = session.#place;
    try {
      place.swapFor((content) => transitions.delete(place.key, content, now(), 0, place.owner));
    } catch (error) {
      // The declared error is a pair: the bucket is given back in any case.
      throw [session.#release(), sessionErrorOf(error)];
    }
    return session.#release();
  }

  id(): string {
    return this.#place.id;
  }

  get(key: string): Uint8Array | undefined {
    return declared(() => {
      const record = this.#place.inspect();
      const value = own(record.values, key);
      const bytes = this.#place.load(value);
      // The value may have been replaced, and deleted, between the two reads.
      return value !== undefined && bytes === undefined ? this.get(key) : bytes;
    });
  }

  set(key: string, value: Uint8Array): void {
    declared(() => this.#place.change([{ tag: 'set', val: [key, { tag: 'bytes', val: value }] }]));
  }

  remove(key: string): void {
    declared(() => this.#place.change([{ tag: 'remove', val: key }]));
  }

  swap(key: string, expected: Uint8Array | undefined, value: Uint8Array | undefined): boolean {
    return declared(() => {
      const place = this.#place;
      const change: Change =
        value == null ? { tag: 'remove', val: key } : { tag: 'set', val: [key, { tag: 'bytes', val: value }] };
      let isSwapped = false;
      place.swapFor((content) => {
        const time = now();
        const record = transitions.readLive(content, time, 0, place.owner);
        const current = own(record.values, key);
        const outcome = transitions.applyTo(record, place.key, time, [change], nonce);
        isSwapped = isEqual(place.load(current), expected ?? undefined);
        return isSwapped ? outcome : undefined;
      });
      return isSwapped;
    });
  }

  keys(): string[] {
    return declared(() => Object.keys(this.#place.inspect().values));
  }

  elicit(client: OutputStream, elicitation: ElicitRequest): FutureElicitResult {
    return declared(() => {
      const { method, params } = questionOf(elicitation);
      const id = toBase64Url(getRandomBytes(24n));
      const until = now() + limits.questionTtl;
      // In the bucket before it is sent: an answer can come at once, and elsewhere.
      this.#place.change([{ tag: 'ask', val: { id, method, params: JSON.stringify(params), until } }]);
      try {
        send(client, { jsonrpc: '2.0', id, method, params });
      } catch (error) {
        const failure = streamErrorOf(error);
        if (failure === undefined) throw error;
        this.#place.change([{ tag: 'forget', val: id }]);
        throw new Declared(failure);
      }
      return new FutureElicitResult(this.#place, id, until);
    });
  }

  terminate(reason: string | undefined): void {
    declared(() => this.#place.change([{ tag: 'terminate', val: reason }]));
  }

  isTerminated(): boolean {
    return declared(() => this.#place.inspect().ended !== undefined);
  }

  [Symbol.dispose](): void {
    const { bucket } = this.#place;
    this.#place.bucket = undefined;
    bucket?.[Symbol.dispose]();
  }

  #release(): Bucket {
    const bucket = this.#place.open();
    this.#place.bucket = undefined;
    return bucket;
  }
}

/** Runs a call that declares a session error; whatever is thrown in it leaves as one. */
function declared<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw sessionErrorOf(error);
  }
}

/** The same for a call that was given the bucket: it is dropped if there will be no session to own it. */
function owning(bucket: Bucket, run: () => Session): Session {
  try {
    return run();
  } catch (error) {
    bucket[Symbol.dispose]();
    throw sessionErrorOf(error);
  }
}

/** A name that was never used before, for what is kept apart. */
function nonce(): string {
  return toBase64Url(getRandomBytes(12n));
}

function now(): number {
  const { seconds, nanoseconds } = wallNow();
  return Number(seconds) * 1000 + Math.floor(nanoseconds / 1_000_000);
}

function bytesOf(value: Value): Uint8Array {
  return value.tag === 'text' ? encoder.encode(value.val) : value.val;
}

function isEqual(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

function textOf(error: { tag: string; val?: unknown }): string {
  return typeof error.val === 'string' ? error.val : JSON.stringify(error);
}

/**
 * Writes one Server-Sent Event. One write, unless the stream permits less than that at a time. A line separator inside
 * JSON is escaped: some readers of event streams take U+2028, U+2029 and U+0085 for the end of a line.
 */
function send(client: OutputStream, message: object): void {
  const json = JSON.stringify(message).replace(
    /[\u0085\u2028\u2029]/g,
    (separator) => `\\u${separator.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  let rest = encoder.encode(`data: ${json}\n\n`);
  while (rest.length > 0) {
    const permitted = Number(client.checkWrite());
    if (permitted === 0) {
      const pollable = client.subscribe();
      pollable.block();
      pollable[Symbol.dispose]?.();
      continue;
    }
    client.write(rest.subarray(0, permitted));
    rest = rest.subarray(permitted);
  }
  client.blockingFlush();
}
