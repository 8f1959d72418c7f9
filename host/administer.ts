import type { AnyBucket, Bucket } from './bucket/bucket.ts';
import { openBucket } from './bucket/open.ts';
import { instantiate } from './component.ts';
import { loadTransitions, type RecordName, type Transitions, type View } from './transitions.ts';

export interface AdministerOptions {
  readonly bucket: string;
  readonly namespace: string;
  readonly action: 'list' | 'show' | 'terminate' | 'delete';
  /** The id of the session; empty for `list`. */
  readonly id: string;
  readonly reason?: string | undefined;
  readonly json: boolean;
}

/** What the administrator is shown of a session. */
interface Shown {
  readonly id: string;
  readonly created: string;
  readonly used: string;
  readonly ttl: number;
  readonly state: 'live' | 'terminated' | 'expired';
  readonly owned: boolean;
  readonly values: number;
}

/** Does one administrator's action on a bucket, and answers with what to show. */
export async function administer(options: AdministerOptions): Promise<string> {
  const bucket = openBucket(options.bucket);
  try {
    const transitions = await loadTransitions();
    const text = await (options.action === 'list' ? list : one)(bucket, transitions, options);
    await bucket.settled();
    return text;
  } finally {
    await bucket.close();
  }
}

async function list(bucket: AnyBucket, transitions: Transitions, options: AdministerOptions): Promise<string> {
  const lines: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await bucket.list(cursor);
    for (const key of page.keys) {
      const meaning = transitions.readKey(key);
      if (meaning?.tag !== 'of-record') continue;
      const { kind, namespace, id } = meaning.val;
      if (kind !== 'session' || namespace !== options.namespace) continue;
      const view = await read(bucket, transitions, meaning.val);
      if (view !== undefined) lines.push(format(shownOf(id, view), options.json));
    }
    cursor = page.cursor;
  } while (cursor !== undefined);
  return lines.join('');
}

async function one(bucket: AnyBucket, transitions: Transitions, options: AdministerOptions): Promise<string> {
  const { id, namespace, action, reason, json } = options;
  const view = await read(bucket, transitions, { kind: 'session', namespace, id });
  if (view === undefined) throw new Error('no such session');
  if (action === 'show') {
    const stored: Record<string, unknown> = JSON.parse(view.values);
    const shown = { ...shownOf(id, view), keys: Object.keys(stored), reason: view.reason };
    return json ? `${JSON.stringify(shown)}\n` : `${JSON.stringify(shown, undefined, 2)}\n`;
  }
  if (!isSynchronous(bucket)) throw new Error(`sessions ${action}: expected a memory or SQLite bucket`);
  const component = await instantiate();
  const { Session } = component.sessions;
  const scope = { namespace, ...(view.owner != null && { owner: view.owner }) };
  const opened = openSession(() => Session.openIn(component.bucket(bucket) as never, scope, id));
  if (action === 'delete') {
    Session.delete(opened);
    return json ? '{"deleted":true}\n' : 'deleted\n';
  }
  opened.terminate(reason);
  opened[Symbol.dispose]();
  return json ? '{"terminated":true}\n' : 'terminated\n';
}

function isSynchronous(bucket: AnyBucket): bucket is Bucket {
  return bucket.kind === 'memory' || bucket.kind === 'sqlite';
}

function openSession<T>(open: () => T): T {
  try {
    return open();
  } catch (error) {
    const payload = error instanceof Error && 'payload' in error ? (error.payload as { tag?: string }) : undefined;
    if (payload?.tag === 'no-such-session') throw new Error('no such session', { cause: error });
    throw error;
  }
}

async function read(
  bucket: AnyBucket,
  transitions: Transitions,
  { kind, namespace, id }: RecordName,
): Promise<View | undefined> {
  try {
    const entry = await bucket.get(transitions.recordKey(kind, namespace, id));
    return entry === undefined ? undefined : transitions.examine(Buffer.from(entry.value).toString());
  } catch (error) {
    const tag = error instanceof Error && 'tag' in error ? error.tag : undefined;
    if (tag === 'deleted' || tag === 'invalid') return undefined;
    throw error;
  }
}

function shownOf(id: string, view: View): Shown {
  const isExpired = Date.now() >= view.renewed + view.ttl;
  return {
    id,
    created: new Date(view.created).toISOString(),
    used: new Date(view.renewed).toISOString(),
    ttl: view.ttl,
    state: isExpired ? 'expired' : view.terminated ? 'terminated' : 'live',
    owned: view.owner != null,
    values: Object.keys(JSON.parse(view.values)).length,
  };
}

function format(shown: Shown, json: boolean): string {
  if (json) return `${JSON.stringify(shown)}\n`;
  const { id, created, used, state, owned, values } = shown;
  return `${id}  ${state}  created ${created}  used ${used}  values ${values}${owned ? '  owned' : ''}\n`;
}
