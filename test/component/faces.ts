import { randomBytes, randomUUID } from 'node:crypto';
import type { Bucket } from '../../host/bucket/bucket.ts';
import { type Component, instantiate } from '../../host/component.ts';
import { type Change, loadTransitions, type Outcome, type Removal, type Transitions } from '../../host/transitions.ts';

/** What both faces of the component can do with a session in a bucket. A refusal is thrown as an error with `reason`. */
export interface Face {
  readonly name: string;
  initialize(owner?: string, ttl?: number): string;
  /** Names a session, which renews it. */
  open(id: string, owner?: string): void;
  get(id: string, key: string): Uint8Array | undefined;
  set(id: string, key: string, value: Uint8Array): void;
  remove(id: string, key: string): void;
  keys(id: string): string[];
  terminate(id: string, reason?: string): void;
  isTerminated(id: string): boolean;
  delete(id: string): void;
}

export type Reason = 'no-such-session' | 'terminated' | 'limit' | 'store' | 'other';

export class FaceError extends Error {
  readonly reason: Reason;

  constructor(reason: Reason, cause: unknown) {
    super(reason, { cause });
    this.reason = reason;
  }
}

/** A clock that stands until it is moved. */
export class Clock {
  time = 1_800_000_000_000;
  readonly now = () => this.time;
}

/** The resource face: `sessions` over the bucket import. Opens the session for every call, as a stateless host would. */
export function sessionsFace(component: Component, bucket: Bucket): Face {
  const none = { namespace: '' };
  const within = <T>(id: string, owner: string | undefined, run: (session: Session) => T): T => {
    const { Session } = component.sessions;
    return guarded(() => {
      const scope = owner === undefined ? none : { ...none, owner };
      const session = Session.openIn(component.bucket(bucket) as never, scope, id);
      try {
        return run(session);
      } finally {
        session[Symbol.dispose]();
      }
    });
  };
  type Session = ReturnType<typeof component.sessions.Session.open>;
  return {
    name: 'sessions',
    initialize: (owner, ttl) =>
      guarded(() => {
        const scope = owner === undefined ? none : { ...none, owner };
        const life = ttl === undefined ? undefined : BigInt(ttl);
        const session = component.sessions.Session.initializeIn(component.bucket(bucket) as never, scope, life);
        const id = session.id();
        session[Symbol.dispose]();
        return id;
      }),
    open: (id, owner) => within(id, owner, () => undefined),
    get: (id, key) => within(id, undefined, (session) => session.get(key)),
    set: (id, key, value) => within(id, undefined, (session) => session.set(key, value)),
    remove: (id, key) => within(id, undefined, (session) => session.remove(key)),
    keys: (id) => within(id, undefined, (session) => session.keys()),
    terminate: (id, reason) => within(id, undefined, (session) => session.terminate(reason)),
    isTerminated: (id) => within(id, undefined, (session) => session.isTerminated()),
    delete: (id) =>
      guarded(() => {
        const session = component.sessions.Session.open(component.bucket(bucket) as never, id);
        component.sessions.Session.delete(session);
      }),
  };
}

/** The pure face: the smallest host that reads, asks `transitions` and swaps. */
export function transitionsFace(name: string, transitions: Transitions, bucket: Bucket, clock: Clock): Face {
  const change = (id: string, decide: (key: string, content: string) => Outcome | Removal) => {
    const key = transitions.recordKey('session', '', id);
    for (;;) {
      const entry = bucket.get(key);
      if (entry === undefined) throw new FaceError('no-such-session', undefined);
      const next = decide(key, Buffer.from(entry.value).toString());
      const { before, after } =
        'after' in next ? { before: [], after: next.after } : (next.beside ?? { before: [], after: [] });
      for (const [at, value] of before) bucket.set(at, value.tag === 'text' ? Buffer.from(value.val) : value.val);
      if (bucket.swap(key, entry.version, Buffer.from(next.content)) === undefined) continue;
      for (const at of after) bucket.delete(at);
      return;
    }
  };
  const apply = (id: string, owner: string | undefined, changes: Change[]) =>
    guarded(() =>
      change(id, (key, content) => transitions.apply(key, content, clock.now(), 0, owner, changes, randomUUID())),
    );
  const view = (id: string) =>
    guarded(() => {
      apply(id, undefined, [{ tag: 'renew' }]);
      const entry = bucket.get(transitions.recordKey('session', '', id));
      if (entry === undefined) throw new FaceError('no-such-session', undefined);
      return transitions.inspect(Buffer.from(entry.value).toString(), clock.now(), 0, undefined);
    });
  return {
    name,
    initialize: (owner, ttl = 3_600_000) =>
      guarded(() => {
        const beginning = { kind: 'session', namespace: '', ttl, attributes: [], binding: '' } as const;
        const owned = owner === undefined ? beginning : { ...beginning, owner };
        const { id, key, content } = transitions.create({ ...owned, attributes: [] }, clock.now(), randomBytes(16));
        bucket.swap(key, undefined, Buffer.from(content));
        return id;
      }),
    open: (id, owner) => apply(id, owner, [{ tag: 'renew' }]),
    get(id, key) {
      const values = JSON.parse(view(id).values);
      const value = Object.hasOwn(values, key) ? values[key] : undefined;
      if (value === undefined) return undefined;
      if (typeof value === 'string') return Buffer.from(value);
      return 'base64' in value ? Buffer.from(value.base64, 'base64url') : bucket.get(value.at)?.value;
    },
    set: (id, key, value) => apply(id, undefined, [{ tag: 'set', val: [key, { tag: 'bytes', val: value }] }]),
    remove: (id, key) => apply(id, undefined, [{ tag: 'remove', val: key }]),
    keys: (id) => Object.keys(JSON.parse(view(id).values)),
    terminate: (id, reason) => apply(id, undefined, [{ tag: 'terminate', val: reason }]),
    isTerminated: (id) => view(id).terminated,
    delete: (id) =>
      guarded(() => change(id, (key, content) => transitions.delete(key, content, clock.now(), 0, undefined))),
  };
}

/** Every face of every build, over one bucket and one clock. */
export async function allFaces(bucket: Bucket, clock: Clock): Promise<Face[]> {
  const component = await instantiate({ now: clock.now });
  return [
    sessionsFace(component, bucket),
    transitionsFace('transitions of session.wasm', await loadTransitions({ build: 'starlingmonkey' }), bucket, clock),
    transitionsFace('transitions.wasm', await loadTransitions(), bucket, clock),
  ];
}

function guarded<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof FaceError) throw error;
    throw new FaceError(reasonOf(error), error);
  }
}

function reasonOf(error: unknown): Reason {
  if (!(error instanceof Error)) throw error;
  if ('payload' in error) {
    const payload = (Array.isArray(error.payload) ? error.payload[1] : error.payload) as { tag: string; val?: unknown };
    if (payload.tag === 'no-such-session') return 'no-such-session';
    if (payload.tag === 'store') return 'store';
    if (/was terminated/.test(String(payload.val))) return 'terminated';
    return /at most/.test(String(payload.val)) ? 'limit' : 'other';
  }
  if (!('tag' in error)) throw error;
  if (error.tag === 'expired' || error.tag === 'deleted' || error.tag === 'foreign') return 'no-such-session';
  return error.tag === 'terminated' || error.tag === 'limit' ? error.tag : 'other';
}
