import type * as wit from '#dist/types/host/interfaces/mcp-session-sessions.js';
import type { Awaitable } from './bucket/bucket.ts';
import { InstanceError } from './instance.ts';
import { type Place, SuspendingPollable } from './waiting.ts';

/** The longest that a waiting guest leaves the bucket alone, in milliseconds: what was stored elsewhere is found within. */
const lookAgain = 100;

/** The functions of a resource, where each may answer later. */
type Later<T> = {
  [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Awaitable<R> : T[K];
};

/** A question as an instance holds it. */
type InnerFuture = Later<wit.FutureElicitResult>;

/** A session as an instance holds it. */
type InnerSession = Omit<Later<wit.Session>, 'elicit'> & {
  elicit(...args: Parameters<wit.Session['elicit']>): Awaitable<InnerFuture>;
};

/** The functions of `sessions`, of one instance of the session component. */
export interface InnerSessions {
  readonly Session: {
    initialize(bucket: object): Awaitable<InnerSession>;
    initializeIn(bucket: object, scope: wit.Scope, ttl: bigint | undefined): Awaitable<InnerSession>;
    open(bucket: object, id: string): Awaitable<InnerSession>;
    openIn(bucket: object, scope: wit.Scope, id: string): Awaitable<InnerSession>;
    close(session: InnerSession): Awaitable<object>;
    delete(session: InnerSession): Awaitable<object>;
  };
}

/** One instance of the session component, and the way into it. */
export interface Home {
  readonly sessions: InnerSessions;
  /** Runs a call into the instance when no other is inside. */
  run<T>(call: () => Awaitable<T>): Promise<T>;
  /** Drops a resource of the instance, unless the instance failed. */
  drop(resource: Later<Disposable>): void;
}

/** Drops what a guest that failed left behind. */
const left = new FinalizationRegistry<() => void>((drop) => drop());

/** A resource of an instance, held for a guest. The instance's own clean-up might enter it in the middle of a call. */
class Held<T extends Later<Disposable>> {
  readonly home: Home;
  readonly inner: T;

  constructor(owner: object, home: Home, inner: T) {
    this.home = home;
    this.inner = inner;
    left.register(owner, () => home.drop(inner), this);
  }

  /** The guest dropped it. */
  drop(): void {
    this.release();
    this.home.drop(this.inner);
  }

  /** It was given back to the instance. */
  release(): void {
    left.unregister(this);
  }

  /** A call whose result has a `session-error`: that the instance failed is told as one, so that the guest lives on. */
  async call<R>(run: (inner: T) => Awaitable<R>): Promise<R> {
    try {
      return await this.home.run(() => run(this.inner));
    } catch (error) {
      throw declared(error);
    }
  }
}

function declared(error: unknown): unknown {
  return error instanceof InstanceError
    ? ({ tag: 'unexpected', val: error.message } satisfies wit.SessionError)
    : error;
}

/**
 * `future-elicit-result` for a guest that is suspended while it waits. No instance of the session component waits: it is
 * asked whether there is something to say, and answers at once.
 */
export class GuestFuture {
  readonly #held: Held<InnerFuture>;
  readonly #place: Place;

  constructor(home: Home, inner: InnerFuture, place: Place) {
    this.#held = new Held(this, home, inner);
    this.#place = place;
  }

  async subscribe(): Promise<SuspendingPollable> {
    const nanoseconds = (await this.#isSettled()) ? 0n : process.hrtime.bigint() + BigInt(lookAgain) * 1_000_000n;
    return new SuspendingPollable(nanoseconds, this.#place, true);
  }

  async elicitResult(): Promise<wit.ElicitResult> {
    const { waiting, givenUp } = this.#place;
    try {
      for (;;) {
        const { wakes } = waiting;
        if (await this.#isSettled()) return await this.#held.home.run(() => this.#held.inner.elicitResult());
        // Woken while the bucket was asked: it may have been asked too early.
        if (wakes === waiting.wakes) await waiting.pause(lookAgain, givenUp);
      }
    } catch (error) {
      if (!(error instanceof InstanceError)) throw error;
      return { tag: 'none', val: { tag: 'store-failed', val: error.message } };
    }
  }

  /** Whether asking for the result would not wait: the component then hands out a pollable that was ready from the start. */
  #isSettled(): Promise<boolean> {
    return this.#held.home.run(async () => {
      const pollable = (await this.#held.inner.subscribe()) as unknown as SuspendingPollable;
      return pollable.atOnce;
    });
  }

  [Symbol.dispose](): void {
    this.#held.drop();
  }
}

/** The resource `session`: each function answers later, but for `id`. What it rejects with has the error as `payload`. */
export interface GuestSession extends Disposable {
  id(): string;
  get(key: string): Promise<Uint8Array | undefined>;
  set(key: string, value: Uint8Array): Promise<void>;
  remove(key: string): Promise<void>;
  swap(key: string, expected: Uint8Array | undefined, value: Uint8Array | undefined): Promise<boolean>;
  keys(): Promise<string[]>;
  elicit(client: wit.OutputStream, elicitation: wit.ElicitRequest): Promise<GuestFuture>;
  terminate(reason: string | undefined): Promise<void>;
  isTerminated(): Promise<boolean>;
}

/** The interface `mcp:session/sessions`, in promises. `B` is the resource that a bucket is. */
export interface GuestSessions<B extends object = object> {
  readonly Session: {
    initialize(bucket: B): Promise<GuestSession>;
    initializeIn(bucket: B, scope: wit.Scope, ttl: bigint | undefined): Promise<GuestSession>;
    open(bucket: B, id: string): Promise<GuestSession>;
    openIn(bucket: B, scope: wit.Scope, id: string): Promise<GuestSession>;
    close(session: GuestSession): Promise<B>;
    delete(session: GuestSession): Promise<B>;
  };
  readonly FutureElicitResult: typeof GuestFuture;
}

/** `sessions` for guests that are suspended while they wait. `settle` finds the instance for a session that is opened. */
export function guestSessions<B extends object>(settle: () => Promise<Home>, place: Place): GuestSessions<B> {
  async function made(bucket: B, make: (sessions: InnerSessions) => Awaitable<InnerSession>): Promise<Session> {
    try {
      const home = await settle();
      return await home.run(async () => {
        const inner = await make(home.sessions);
        return new Session(home, inner, await inner.id(), bucket);
      });
    } catch (error) {
      throw declared(error);
    }
  }

  class Session implements GuestSession {
    readonly #held: Held<InnerSession>;
    readonly #id: string;
    readonly #bucket: B;

    constructor(home: Home, inner: InnerSession, id: string, bucket: B) {
      this.#held = new Held(this, home, inner);
      this.#id = id;
      this.#bucket = bucket;
    }

    static initialize(bucket: B): Promise<Session> {
      return made(bucket, (sessions) => sessions.Session.initialize(bucket));
    }

    static initializeIn(bucket: B, scope: wit.Scope, ttl: bigint | undefined): Promise<Session> {
      return made(bucket, (sessions) => sessions.Session.initializeIn(bucket, scope, ttl));
    }

    static open(bucket: B, id: string): Promise<Session> {
      return made(bucket, (sessions) => sessions.Session.open(bucket, id));
    }

    static openIn(bucket: B, scope: wit.Scope, id: string): Promise<Session> {
      return made(bucket, (sessions) => sessions.Session.openIn(bucket, scope, id));
    }

    static async close(given: GuestSession): Promise<B> {
      const session = given as Session;
      const held = session.#held;
      held.release();
      try {
        return (await held.home.run(() => held.home.sessions.Session.close(held.inner))) as B;
      } catch (error) {
        if (error instanceof InstanceError) return session.#bucket;
        throw error;
      }
    }

    static async delete(given: GuestSession): Promise<B> {
      const session = given as Session;
      const held = session.#held;
      held.release();
      try {
        return (await held.home.run(() => held.home.sessions.Session.delete(held.inner))) as B;
      } catch (error) {
        throw error instanceof InstanceError ? [session.#bucket, declared(error)] : error;
      }
    }

    id(): string {
      return this.#id;
    }

    get(key: string): Promise<Uint8Array | undefined> {
      return this.#held.call((inner) => inner.get(key));
    }

    set(key: string, value: Uint8Array): Promise<void> {
      return this.#held.call((inner) => inner.set(key, value));
    }

    remove(key: string): Promise<void> {
      return this.#held.call((inner) => inner.remove(key));
    }

    swap(key: string, expected: Uint8Array | undefined, value: Uint8Array | undefined): Promise<boolean> {
      return this.#held.call((inner) => inner.swap(key, expected, value));
    }

    keys(): Promise<string[]> {
      return this.#held.call((inner) => inner.keys());
    }

    async elicit(client: wit.OutputStream, elicitation: wit.ElicitRequest): Promise<GuestFuture> {
      const { home } = this.#held;
      const future = await this.#held.call((inner) => inner.elicit(client, elicitation));
      return new GuestFuture(home, future, place);
    }

    terminate(reason: string | undefined): Promise<void> {
      return this.#held.call((inner) => inner.terminate(reason));
    }

    isTerminated(): Promise<boolean> {
      return this.#held.call((inner) => inner.isTerminated());
    }

    [Symbol.dispose](): void {
      this.#held.drop();
    }
  }

  return { Session, FutureElicitResult: GuestFuture };
}
