import type { Kind } from 'mcp:session/transitions@0.1.0';

/** The name of a record. */
export interface RecordName {
  readonly kind: Kind;
  readonly namespace: string;
  readonly id: string;
}

const letters = { session: 's', handle: 'h', 'request-state': 'q' } as const satisfies Record<Kind, string>;
const kinds: Record<string, Kind | undefined> = { s: 'session', h: 'handle', q: 'request-state' };

const idShape = /^[A-Za-z0-9_-]{22,128}$/;
const recordKeyShape = /^mcp-session\/1\/([shq])\/([^/]*)\/([A-Za-z0-9_-]{22,128})$/;
const valueKeyShape = /^mcp-session\/1\/v\/([shq]\/[^/]*\/[A-Za-z0-9_-]{22,128})\/([0-9a-z]+)-[A-Za-z0-9_-]+$/;
const journalKeyShape = /^mcp-session\/1\/j\/(s\/[^/]*\/[A-Za-z0-9_-]{22,128})(?:\/([0-9a-z]+)-[A-Za-z0-9_-]+)?$/;

/** Whether an id of that shape is ever made. */
export function isId(id: string): boolean {
  return idShape.test(id);
}

/**
 * The key of a record. Different names never share a key: the namespace is percent-encoded, so that it holds no slash,
 * and each kind has a letter of its own.
 */
export function recordKey({ kind, namespace, id }: RecordName): string {
  return `mcp-session/1/${letters[kind]}/${encodeURIComponent(namespace)}/${id}`;
}

/** A key for a value kept apart from the record under `key`. Says when it was made, so that a sweep can spare it. */
export function valueKey(key: string, now: number, unique: string): string {
  return `mcp-session/1/v/${key.slice('mcp-session/1/'.length)}/${Math.floor(now).toString(36)}-${unique}`;
}

/** Reads a key back; `undefined` if it is no record's. */
export function readRecordKey(key: string): RecordName | undefined {
  const [, letter = '', encoded = '', id = ''] = recordKeyShape.exec(key) ?? [];
  const kind = kinds[letter];
  const namespace = decode(encoded);
  return kind === undefined || namespace === undefined ? undefined : { kind, namespace, id };
}

/** Reads the key of a value kept apart; `undefined` if it is none. `made` is in milliseconds. */
export function readValueKey(key: string): { readonly record: string; readonly made: number } | undefined {
  const [, rest, made] = valueKeyShape.exec(key) ?? [];
  if (rest === undefined || made === undefined) return undefined;
  return { record: `mcp-session/1/${rest}`, made: Number.parseInt(made, 36) };
}

/** The key of the journal of a session's event streams; `key` is that of its record. */
export function journalKey(key: string): string {
  return `mcp-session/1/j/${key.slice('mcp-session/1/'.length)}`;
}

/** A key for events kept apart from the journal under `key`. Says when it was made, so that a sweep can spare it. */
export function journalPieceKey(key: string, now: number, unique: string): string {
  return `${key}/${Math.floor(now).toString(36)}-${unique}`;
}

/**
 * Reads the key of a journal or of a piece of one; `undefined` if it is neither. `record` is the key of the session,
 * `made`, in milliseconds, is a piece's own.
 */
export function readJournalKey(
  key: string,
): { readonly record: string; readonly made: number | undefined } | undefined {
  const [, rest, made] = journalKeyShape.exec(key) ?? [];
  if (rest === undefined) return undefined;
  return { record: `mcp-session/1/${rest}`, made: made === undefined ? undefined : Number.parseInt(made, 36) };
}

function decode(encoded: string): string | undefined {
  try {
    const namespace = decodeURIComponent(encoded);
    // Only the one spelling that recordKey makes is ours.
    return encodeURIComponent(namespace) === encoded ? namespace : undefined;
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}
