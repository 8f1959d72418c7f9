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
  const work: Work = { record, key, now, nonce, before: [], after: [] };
  for (let at = 0; at < changes.length; at++) {
    const change = changes[at];
    if (change !== undefined) make(work, change);
  }
  return outcomeOf(work);
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

/** The changes of one call, as they are made. An object and functions: calls of private methods are slow in one engine. */
interface Work {
  readonly record: StoredRecord;
  readonly key: string;
  readonly now: number;
  readonly nonce: () => string;
  readonly before: [string, Value][];
  readonly after: string[];
}

function make(work: Work, change: Change): void {
  const { record } = work;
  switch (change.tag) {
    case 'replace':
      renew(work);
      return replace(work, change.val);
    case 'set':
      renew(work);
      return set(work, change.val[0], change.val[1]);
    case 'remove':
      renew(work);
      return unset(work, change.val);
    case 'renew':
      if (record.ended === undefined) renew(work);
      return;
    case 'terminate':
      return terminate(work, change.val);
    case 'set-attribute':
      return setNote(record, change.val[0], change.val[1]);
    case 'remove-attribute':
      delete record.notes[change.val];
      return;
    case 'ask':
      renew(work);
      return ask(work, change.val);
    case 'answer':
      renew(work);
      return answer(work, change.val);
    case 'forget':
      delete record.questions[change.val];
      return;
    case 'take':
      return take(record, change.val);
    case 'redeem':
      return redeem(record, change.val);
  }
}

function outcomeOf({ record, now, before, after }: Work): Outcome {
  const { questions } = record;
  for (const id in questions) {
    if ((questions[id]?.until ?? 0) + limits.answerKept <= now) delete questions[id];
  }
  const content = write(record);
  return before.length === 0 && after.length === 0 ? { content } : { content, beside: { before, after } };
}

function renew({ record, now }: Work): void {
  const { ended } = record;
  if (ended !== undefined) refuse({ tag: 'terminated', val: ended.reason });
  if (record.used < now) record.used = now;
}

function set(work: Work, name: string, value: Value): void {
  checkKey(name);
  const { values } = work.record;
  dropApart(work, own(values, name));
  put(values, name, stored(work, value.val));
  if (Object.keys(values).length > limits.values) limitCount('values', limits.values);
}

function stored(work: Work, value: string | Uint8Array): StoredValue {
  if (!exceeds(value, limits.inline)) {
    if (typeof value === 'string') return value;
    return toText(value) ?? { base64: toBase64Url(value) };
  }
  if (exceeds(value, limits.value)) limit('a value', limits.value);
  const at = valueKey(work.key, work.now, `${work.nonce()}${work.before.length}`);
  const isText = typeof value === 'string';
  work.before.push([at, isText ? { tag: 'text', val: value } : { tag: 'bytes', val: value }]);
  return { at, size: isText ? utf8Length(value) : value.length };
}

function exceeds(value: string | Uint8Array, size: number): boolean {
  return typeof value === 'string' ? longerThan(value, size) : value.length > size;
}

function unset(work: Work, name: string): void {
  dropApart(work, own(work.record.values, name));
  delete work.record.values[name];
}

function replace(work: Work, json: string): void {
  const wanted = parseObject('replace', json);
  const old = work.record.values;
  const values: Record<string, StoredValue> = {};
  let count = 0;
  for (const name in wanted) {
    if (++count > limits.values) limitCount('values', limits.values);
    const text = own(wanted, name);
    const kept = own(old, name);
    if (text === null) {
      if (kept !== undefined) put(values, name, kept);
    } else if (typeof text === 'string') {
      checkKey(name);
      dropApart(work, kept);
      put(values, name, stored(work, text));
    } else {
      refuse({ tag: 'invalid', val: 'replace: expected a string or null for each key' });
    }
  }
  for (const name in old) {
    if (!Object.hasOwn(wanted, name)) dropApart(work, own(old, name));
  }
  work.record.values = values;
}

function dropApart(work: Work, value: StoredValue | undefined): void {
  if (typeof value === 'object' && 'at' in value) work.after.push(value.at);
}

function terminate({ record, now }: Work, reason: string | undefined): void {
  if (record.ended !== undefined) return;
  if (reason != null) checkText('the reason', reason);
  record.ended = reason == null ? { at: now } : { at: now, reason };
}

function ask({ record, now }: Work, { id, method, params, until, note }: Question): void {
  if (!/^[\x21-\x7e]{16,128}$/.test(id)) {
    refuse({ tag: 'invalid', val: 'the id of a question: expected 16 to 128 characters of visible ASCII' });
  }
  if (!(until > now)) refuse({ tag: 'invalid', val: 'until: expected a time after now' });
  if (longerThan(params, limits.question)) limit('a question', limits.question);
  const { questions } = record;
  if (Object.hasOwn(questions, id)) refuse({ tag: 'invalid', val: 'the id of the question was used before' });
  const parsed = parse('params', params);
  const wrong = questionFault(method, parsed);
  if (wrong !== undefined) refuse({ tag: 'invalid', val: `the question: ${wrong}` });
  put(questions, id, { method, params: parsed, asked: now, until, ...(note != null && { note }) });
  if (Object.keys(questions).length > limits.questions) limitCount('questions', limits.questions);
}

function answer({ record, now }: Work, { id, content, failed }: Response): void {
  const question = own(record.questions, id);
  if (question === undefined || question.answer !== undefined || question.until <= now) {
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

function take({ questions }: StoredRecord, id: string): void {
  if (own(questions, id)?.answer === undefined) refuse({ tag: 'no-such-question' });
  delete questions[id];
}

function redeem(record: StoredRecord, binding: string): void {
  if (record.kind !== 'request-state') {
    refuse({ tag: 'invalid', val: 'redeem: expected the record of a request state' });
  }
  // The call is looked at first: a wrong one must not even learn that the state was redeemed.
  if (record.binding !== binding) refuse({ tag: 'other-call' });
  if (record.redeemed) refuse({ tag: 'redeemed' });
  record.redeemed = true;
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
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  return refuse({ tag: 'invalid', val: `${what}: expected a JSON object` });
}
