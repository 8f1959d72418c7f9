import type { Kind, Refusal } from 'mcp:session/transitions@0.1.0';

/** The version of the stored form that this code writes. It reads this one and all before it. */
export const recordVersion = 1;

/** A value as a record holds it: text as it is, other bytes in base64url, a large one by the bucket key it is kept under. */
export type StoredValue = string | { base64: string } | { at: string; size: number };

/** A question as a record holds it. */
export interface StoredQuestion {
  method: string;
  params: unknown;
  /** When it was asked and until when it may be answered, in milliseconds since 1970. */
  asked: number;
  until: number;
  /** The host's own. */
  note?: string;
  answer?: { result: unknown } | { error: unknown };
}

/** Everything of a session but its large values. What `stored-form.md` describes. */
export interface StoredRecord {
  v: 1;
  kind: Kind;
  id: string;
  owner?: string;
  made: number;
  used: number;
  ttl: number;
  ended?: { at: number; reason?: string };
  notes: Record<string, string>;
  values: Record<string, StoredValue>;
  questions: Record<string, StoredQuestion>;
  binding?: string;
  redeemed?: true;
}

/** What is left of a deleted session until its key is deleted too: nobody can change it back. */
export const tombstone = JSON.stringify({ v: recordVersion, deleted: true });

/** Throws a refusal, the way the component model wants it thrown. */
export function refuse(refusal: Refusal): never {
  throw refusal;
}

/** Whether a thrown value is a refusal and no bug. */
export function isRefusal(thrown: unknown): thrown is Refusal {
  return typeof thrown === 'object' && thrown !== null && 'tag' in thrown && !(thrown instanceof Error);
}

/** Reads a record. Refuses what is no record, what a later version wrote, and what was deleted. */
export function readRecord(content: string): StoredRecord {
  let record: unknown;
  try {
    record = JSON.parse(content);
  } catch (error) {
    if (error instanceof SyntaxError) return refuse({ tag: 'unreadable', val: 'the record is no JSON' });
    throw error;
  }
  if (typeof record !== 'object' || record === null || !('v' in record)) {
    return refuse({ tag: 'unreadable', val: 'the record names no version' });
  }
  if (record.v !== recordVersion) {
    const expected = `expected version ${recordVersion} or earlier`;
    return refuse({ tag: 'unreadable', val: `the record is of another version; ${expected}` });
  }
  if ('deleted' in record) return refuse({ tag: 'deleted' });
  if (!isRecord(record)) return refuse({ tag: 'unreadable', val: 'the record lacks a member of its version' });
  return record;
}

function isRecord(record: object): record is StoredRecord {
  const of = record as Partial<Record<keyof StoredRecord, unknown>>;
  return (
    typeof of.id === 'string' &&
    typeof of.kind === 'string' &&
    typeof of.made === 'number' &&
    typeof of.used === 'number' &&
    typeof of.ttl === 'number' &&
    isMap(of.notes) &&
    isMap(of.values) &&
    isMap(of.questions)
  );
}

function isMap(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Sets a member under any name. A plain assignment would take `__proto__` for something else. */
export function put<T>(map: Record<string, T>, name: string, value: T): void {
  if (name === '__proto__') {
    Object.defineProperty(map, name, { value, enumerable: true, configurable: true, writable: true });
  } else {
    map[name] = value;
  }
}

/** A member that is really there, whatever its name. */
export function own<T>(map: Record<string, T>, name: string): T | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined;
}
