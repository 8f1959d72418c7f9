import { existsSync } from 'node:fs';
import type { AnyBucket, Bucket } from './bucket/bucket.ts';
import { openBucket } from './bucket/open.ts';
import { deleteJournal } from './journal.ts';
import { sessionErrorOf } from './session-error.ts';
import { describe, detail, type Found, format, type StoredValue, storedValues } from './shown.ts';
import { loadTransitions, Refusal, type Transitions, type View } from './transitions.ts';

export interface AdministerOptions {
  /** The URL of the bucket. */
  readonly bucket: string;
  readonly namespace: string;
  readonly action: 'list' | 'show' | 'terminate' | 'delete';
  /** The id of the session; empty for `list`. */
  readonly id: string;
  readonly reason?: string | undefined;
  /** Whether `show` shows the values. */
  readonly values: boolean;
  readonly json: boolean;
}

const noSuchSession = 'no such session';

/** Does one administrator's action on a bucket, and gives what to print, a page at a time. */
export async function* administer(options: AdministerOptions): AsyncGenerator<string> {
  const { action, bucket: url } = options;
  checkFile(url, action);
  const bucket = openBucket(url);
  try {
    const transitions = await loadTransitions();
    if (action === 'list') yield* list(bucket, transitions, options);
    else if (action === 'show') yield await show(bucket, transitions, options);
    else yield await end(bucket, transitions, { ...options, action });
  } finally {
    await bucket.close();
  }
}

/** Opening a file that is not there would make one, with nothing in it to look after. */
function checkFile(url: string, action: AdministerOptions['action']): void {
  const [, encoded = ''] = /^sqlite:([^?]+)/.exec(url) ?? [];
  const path = /%(?![\da-f]{2})/i.test(encoded) ? '' : decodeURIComponent(encoded);
  if (path === '' || path === ':memory:' || existsSync(path)) return;
  throw new Error(`${action === 'list' ? 'cannot open the bucket' : noSuchSession}: there is no file "${path}"`);
}

async function* list(
  bucket: AnyBucket,
  transitions: Transitions,
  { namespace, json }: AdministerOptions,
): AsyncGenerator<string> {
  let cursor: string | undefined;
  do {
    const page = await bucket.list(cursor);
    let text = '';
    for (const key of page.keys) {
      const meaning = transitions.readKey(key);
      if (meaning?.tag !== 'of-record' || meaning.val.kind !== 'session') continue;
      if (meaning.val.namespace !== namespace) continue;
      const found = await read(bucket, transitions, key);
      if (found !== undefined) text += format(describe(meaning.val.id, found, Date.now()), json);
    }
    if (text !== '') yield text;
    cursor = page.cursor;
  } while (cursor !== undefined);
}

async function show(
  bucket: AnyBucket,
  transitions: Transitions,
  { namespace, id, json, values }: AdministerOptions,
): Promise<string> {
  const view = await readOne(bucket, transitions, namespace, id);
  const stored = storedValues(view);
  if (values) {
    for (const value of stored) await load(bucket, value);
  }
  return detail(describe(id, view, Date.now()), view, stored, { json, values });
}

/** Fetches a value that is kept apart. */
async function load(bucket: AnyBucket, value: StoredValue): Promise<void> {
  if (value.at === undefined) return;
  const entry = await bucket.get(value.at);
  if (entry === undefined) throw new Error('the session changed while it was read: try again');
  value.content = entry.value;
}

/** Terminates or deletes, as the component does it for everybody. */
async function end(
  bucket: AnyBucket,
  transitions: Transitions,
  { namespace, id, json, action, reason }: AdministerOptions & { readonly action: 'terminate' | 'delete' },
): Promise<string> {
  const { owner } = await readOne(bucket, transitions, namespace, id);
  if (!isSynchronous(bucket)) throw new Error(`sessions ${action}: expected an SQLite bucket`);
  // Costs more to load than everything else here.
  const { instantiate } = await import('./component.ts');
  const component = await instantiate();
  const { Session } = component.sessions;
  const scope = { namespace, ...(owner != null && { owner }) };
  const done = action === 'delete' ? 'deleted' : 'terminated';
  declared(action, () => {
    // The resource and the interface it stands for are declared apart.
    const session = Session.openIn(component.bucket(bucket) as never, scope, id);
    if (action === 'delete') return Session.delete(session);
    try {
      session.terminate(reason);
    } finally {
      session[Symbol.dispose]();
    }
  });
  await deleteJournal(bucket, transitions.recordKey('session', namespace, id));
  await bucket.settled();
  return json ? `${JSON.stringify({ [done]: true })}\n` : `${done}\n`;
}

function isSynchronous(bucket: AnyBucket): bucket is Bucket {
  return bucket.kind === 'memory' || bucket.kind === 'sqlite';
}

/** Says in words what the component declares as an error. */
function declared(action: string, call: () => unknown): void {
  try {
    call();
  } catch (error) {
    const payload = error instanceof Error && 'payload' in error ? error.payload : undefined;
    const declaredError: unknown = Array.isArray(payload) ? payload.at(-1) : payload;
    if (typeof declaredError !== 'object' || declaredError === null || !('tag' in declaredError)) throw error;
    if (declaredError.tag === 'no-such-session') throw new Error(noSuchSession, { cause: error });
    const why = 'val' in declaredError && typeof declaredError.val === 'string' ? declaredError.val : declaredError.tag;
    throw new Error(`cannot ${action} the session: ${why}`, { cause: error });
  }
}

async function readOne(bucket: AnyBucket, transitions: Transitions, namespace: string, id: string): Promise<View> {
  let key: string;
  try {
    key = transitions.recordKey('session', namespace, id);
  } catch (error) {
    if (error instanceof Refusal && error.tag === 'invalid') throw new Error(noSuchSession, { cause: error });
    throw error;
  }
  const found = await read(bucket, transitions, key);
  if (found === undefined) throw new Error(noSuchSession);
  if (found instanceof Refusal) throw sessionErrorOf(found);
  return found;
}

/** What a record says, or why it cannot be read. `undefined` if there is none, or if it was just deleted. */
async function read(bucket: AnyBucket, transitions: Transitions, key: string): Promise<Found | undefined> {
  const entry = await bucket.get(key);
  if (entry === undefined) return undefined;
  try {
    return transitions.examine(Buffer.from(entry.value).toString());
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return error.tag === 'deleted' ? undefined : error;
  }
}
