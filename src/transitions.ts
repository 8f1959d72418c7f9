import type {
  Beginning,
  Change,
  Created,
  KeyMeaning,
  Kind,
  Outcome,
  Question,
  Removal,
  Response,
  Value,
  View,
} from 'mcp:session/transitions@0.1.0';
import { answerFault, questionFault } from './answer.ts';
import { longerThan, toBase64Url, toText, utf8Length } from './bytes.ts';
import { limits } from './limits.ts';
import { isId, readRecordKey, readValueKey, recordKey as keyOf, valueKey } from './namespace.ts';
import {
  own,
  put,
  isRefusal,
  readRecord,
  recordVersion,
  refuse,
  type StoredRecord,
  type StoredValue,
  tombstone,
} from './record.ts';

export function recordKey(kind: Kind, namespace: string, id: string): string {
  if (!isId(id)) return refuse({ tag: 'invalid', val: 'the id is of no shape that is ever made' });
  checkText('the namespace', namespace);
  return keyOf({ kind, namespace, id });
}

export function readKey(key: string): KeyMeaning | undefined {
  const record = readRecordKey(key);
  if (record !== undefined) return { tag: 'of-record', val: record };
  const value = readValueKey(key);
  return value === undefined ? undefined : { tag: 'of-value', val: value.record };
}

export function create(beginning: Beginning, now: number, entropy: Uint8Array): Created {
  const { kind, namespace, owner, ttl, attributes, binding } = beginning;
  if (entropy.length < limits.entropy) {
    return refuse({ tag: 'invalid', val: `entropy: expected ${limits.entropy} bytes or more` });
  }
  if (!(ttl >= 1 && Number.isFinite(ttl))) {
    return refuse({ tag: 'invalid', val: 'ttl: expected a number of milliseconds, 1 or more' });
  }
  checkText('the namespace', namespace);
  if (owner != null) checkText('the owner', owner);
  const id = toBase64Url(entropy);
  const record: StoredRecord = {
    v: recordVersion,
    kind,
    id,
    made: now,
    used: now,
    ttl,
    notes: {},
    values: {},
    questions: {},
  };
  if (owner != null) record.owner = owner;
  if (kind === 'request-state') record.binding = binding;
  for (const [name, text] of attributes) setNote(record, name, text);
  return { id, key: recordKey(kind, namespace, id), content: write(record) };
}

export function inspect(content: string, now: number, used: number, owner: string | undefined): View {
  return view(readLive(content, now, used, owner));
}

export function examine(content: string): View {
  return view(readRecord(content));
}

export function apply(
  key: string,
  content: string,
  now: number,
  used: number,
  owner: string | undefined,
  changes: Change[],
  nonce: string,
): Outcome {
  return applyTo(readLive(content, now, used, owner), key, now, changes, () => nonce);
}

/** A record that is live and belongs to `owner`; refused otherwise. It knows of the latest use. */
export function readLive(content: string, now: number, used: number, owner: string | undefined): StoredRecord {
  const record = readRecord(content);
  checkLive(record, now, used, owner);
  record.used = Math.max(record.used, used);
  return record;
}

/** Changes a record that was just read. The nonce is drawn only if something is written apart. */
export function applyTo(
  record: StoredRecord,
  key: string,
  now: number,
  changes: Change[],
  nonce: () => string,
): Outcome {
  const work = new Work(record, key, now, nonce);
  for (const change of changes) work.make(change);
  return work.outcome();
}

function remove(key: string, content: string, now: number, used: number, owner: string | undefined): Removal {
  return removalOf(key, readLive(content, now, used, owner));
}
export { remove as delete };

export function sweep(key: string, content: string, now: number): Removal | undefined {
  if (content === tombstone) return { content: tombstone, after: [key] };
  const record = readRecord(content);
  return isExpired(record, now, 0) ? removalOf(key, record) : undefined;
}

export function orphaned(key: string, content: string | undefined, now: number): boolean {
  const value = readValueKey(key);
  if (value === undefined || now - value.made < limits.orphanAge) return false;
  if (content == null || content === tombstone) return true;
  const record = tryRead(content);
  // What cannot be read may still refer to it.
  return record !== undefined && !apartKeys(record).includes(key);
}

/** The changes of one call, as they are made. */
class Work {
  readonly #record: StoredRecord;
  readonly #key: string;
  readonly #now: number;
  readonly #nonce: () => string;
  #before: [string, Value][] = [];
  #after: string[] = [];

  constructor(record: StoredRecord, key: string, now: number, nonce: () => string) {
    this.#record = record;
    this.#key = key;
    this.#now = now;
    this.#nonce = nonce;
  }

  make(change: Change): void {
    const record = this.#record;
    switch (change.tag) {
      case 'set':
        this.#renew();
        return this.#set(change.val[0], change.val[1]);
      case 'remove':
        this.#renew();
        return this.#remove(change.val);
      case 'replace':
        this.#renew();
        return this.#replace(change.val);
      case 'renew':
        if (record.ended === undefined) this.#renew();
        return;
      case 'terminate':
        return this.#terminate(change.val);
      case 'set-attribute':
        return setNote(record, change.val[0], change.val[1]);
      case 'remove-attribute':
        delete record.notes[change.val];
        return;
      case 'ask':
        this.#renew();
        return this.#ask(change.val);
      case 'answer':
        this.#renew();
        return this.#answer(change.val);
      case 'forget':
        delete record.questions[change.val];
        return;
      case 'redeem':
        return this.#redeem(change.val);
    }
  }

  outcome(): Outcome {
    for (const [id, question] of Object.entries(this.#record.questions)) {
      if (question.until + limits.answerKept <= this.#now) delete this.#record.questions[id];
    }
    return { content: write(this.#record), before: this.#before, after: this.#after };
  }

  #renew(): void {
    const { ended } = this.#record;
    if (ended !== undefined) refuse({ tag: 'terminated', val: ended.reason });
    this.#record.used = Math.max(this.#record.used, this.#now);
  }

  #set(name: string, value: Value): void {
    checkKey(name);
    const { values } = this.#record;
    this.#dropApart(own(values, name));
    put(values, name, this.#stored(value));
    if (Object.keys(values).length > limits.values) limitCount('values', limits.values);
  }

  #stored(value: Value): StoredValue {
    const { val } = value;
    const exceeds = (size: number) => (typeof val === 'string' ? longerThan(val, size) : val.length > size);
    if (!exceeds(limits.inline)) {
      if (typeof val === 'string') return val;
      return toText(val) ?? { base64: toBase64Url(val) };
    }
    if (exceeds(limits.value)) limit('a value', limits.value);
    const at = valueKey(this.#key, this.#now, `${this.#nonce()}${this.#before.length}`);
    this.#before.push([at, value]);
    return { at, size: typeof val === 'string' ? utf8Length(val) : val.length };
  }

  #remove(name: string): void {
    this.#dropApart(own(this.#record.values, name));
    delete this.#record.values[name];
  }

  #replace(json: string): void {
    const wanted = parseObject('replace', json);
    const old = this.#record.values;
    const values: Record<string, StoredValue> = {};
    const names = Object.keys(wanted);
    if (names.length > limits.values) limitCount('values', limits.values);
    for (const name of names) {
      const text = own(wanted, name);
      const kept = own(old, name);
      if (text === null) {
        if (kept !== undefined) put(values, name, kept);
      } else if (typeof text === 'string') {
        checkKey(name);
        this.#dropApart(kept);
        put(values, name, this.#stored({ tag: 'text', val: text }));
      } else {
        refuse({ tag: 'invalid', val: 'replace: expected a string or null for each key' });
      }
    }
    for (const name of Object.keys(old)) {
      if (!Object.hasOwn(wanted, name)) this.#dropApart(own(old, name));
    }
    this.#record.values = values;
  }

  #dropApart(value: StoredValue | undefined): void {
    if (typeof value === 'object' && 'at' in value) this.#after.push(value.at);
  }

  #terminate(reason: string | undefined): void {
    const record = this.#record;
    if (record.ended !== undefined) return;
    if (reason != null) checkText('the reason', reason);
    record.ended = reason == null ? { at: this.#now } : { at: this.#now, reason };
  }

  #ask({ id, method, params, until }: Question): void {
    if (!/^[\x21-\x7e]{16,128}$/.test(id)) {
      refuse({ tag: 'invalid', val: 'the id of a question: expected 16 to 128 characters of visible ASCII' });
    }
    if (!(until > this.#now)) refuse({ tag: 'invalid', val: 'until: expected a time after now' });
    if (longerThan(params, limits.question)) limit('a question', limits.question);
    const { questions } = this.#record;
    if (Object.hasOwn(questions, id)) refuse({ tag: 'invalid', val: 'the id of the question was used before' });
    const parsed = parse('params', params);
    const wrong = questionFault(method, parsed);
    if (wrong !== undefined) refuse({ tag: 'invalid', val: `the question: ${wrong}` });
    questions[id] = { method, params: parsed, asked: this.#now, until };
    if (Object.keys(questions).length > limits.questions) limitCount('questions', limits.questions);
  }

  #answer({ id, content, failed }: Response): void {
    const question = own(this.#record.questions, id);
    if (question === undefined || question.answer !== undefined || question.until <= this.#now) {
      return refuse({ tag: 'no-such-question' });
    }
    if (longerThan(content, limits.question)) limit('an answer', limits.question);
    const parsed = parse('the answer', content);
    if (failed) {
      question.answer = { error: parsed };
      return;
    }
    const wrong = answerFault(question.method, question.params, parsed);
    if (wrong !== undefined) refuse({ tag: 'misfit', val: wrong });
    question.answer = { result: parsed };
  }

  #redeem(binding: string): void {
    const record = this.#record;
    if (record.kind !== 'request-state') {
      refuse({ tag: 'invalid', val: 'redeem: expected the record of a request state' });
    }
    // The call is looked at first: a wrong one must not even learn that the state was redeemed.
    if (record.binding !== binding) refuse({ tag: 'other-call' });
    if (record.redeemed) refuse({ tag: 'redeemed' });
    record.redeemed = true;
  }
}

function tryRead(content: string): StoredRecord | undefined {
  try {
    return readRecord(content);
  } catch (error) {
    if (isRefusal(error)) return undefined;
    throw error;
  }
}

function isExpired(record: StoredRecord, now: number, used: number): boolean {
  return now >= Math.max(record.used, used) + record.ttl;
}

/** Another owner is looked at first: nothing else about a foreign session may be told. */
function checkLive(record: StoredRecord, now: number, used: number, owner: string | undefined): void {
  if ((record.owner ?? undefined) !== (owner ?? undefined)) refuse({ tag: 'foreign' });
  if (isExpired(record, now, used)) refuse({ tag: 'expired' });
}

function view(record: StoredRecord): View {
  const { made, used, ttl, ended, owner, notes, values, questions } = record;
  return {
    created: made,
    renewed: used,
    ttl,
    terminated: ended !== undefined,
    reason: ended?.reason,
    owner,
    attributes: JSON.stringify(notes),
    values: JSON.stringify(values),
    questions: JSON.stringify(questions),
  };
}

function apartKeys(record: StoredRecord): string[] {
  return Object.values(record.values).flatMap((value) =>
    typeof value === 'object' && 'at' in value ? [value.at] : [],
  );
}

function removalOf(key: string, record: StoredRecord): Removal {
  return { content: tombstone, after: [...apartKeys(record), key] };
}

function write(record: StoredRecord): string {
  const content = JSON.stringify(record);
  if (longerThan(content, limits.record)) limit('a session without its large values', limits.record);
  return content;
}

function setNote(record: StoredRecord, name: string, text: string): void {
  if (longerThan(name, limits.attributeName)) limit('the name of an attribute', limits.attributeName);
  put(record.notes, name, text);
}

function checkKey(name: string): void {
  if (longerThan(name, limits.key)) limit('a key', limits.key);
}

function checkText(what: string, text: string): void {
  if (longerThan(text, limits.text)) limit(what, limits.text);
}

function limit(what: string, bytes: number): never {
  return refuse({ tag: 'limit', val: `${what} has at most ${bytes} bytes` });
}

function limitCount(what: string, count: number): never {
  return refuse({ tag: 'limit', val: `a session has at most ${count} ${what}` });
}

function parse(what: string, json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    if (error instanceof SyntaxError) return refuse({ tag: 'invalid', val: `${what}: expected JSON text` });
    throw error;
  }
}

function parseObject(what: string, json: string): Record<string, unknown> {
  const value = parse(what, json);
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ...value };
  return refuse({ tag: 'invalid', val: `${what}: expected a JSON object` });
}
