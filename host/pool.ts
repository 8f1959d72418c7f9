import type { Awaitable } from './bucket/bucket.ts';
import { InstanceError } from './instance.ts';
import type { Log } from './log.ts';
import type { GivenUp } from './waiting.ts';

export interface SuspendingOptions {
  /** Whether a thrown value is a result that the WIT declares. Every other one ends the instance. */
  declared(thrown: unknown): boolean;
  /** Hears `instance replaced`, once for each instance that failed. */
  readonly log?: Log | undefined;
  /** Called when the instance failed or is given up. */
  readonly ended?: (() => void) | undefined;
}

/**
 * One instance of a component that is suspended while it waits, and the calls that wait for it.
 *
 * Calls go in one after the other: an instance that is suspended must not be entered, not even to drop a resource.
 */
export class SuspendingInstance<E extends object> {
  readonly exports: E;
  readonly #options: SuspendingOptions;
  #last: Promise<unknown> = Promise.resolve();
  #load = 0;
  #failed = false;

  constructor(exports: E, options: SuspendingOptions) {
    this.exports = exports;
    this.#options = options;
  }

  /** How many calls are inside or wait. */
  get load(): number {
    return this.#load;
  }

  /** Whether every call is refused from now on. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Runs a call when those before are done. Rejects with an {@link InstanceError} if the component failed. */
  async run<T>(call: (exports: E) => Awaitable<T>): Promise<T> {
    const result = this.#last.then(() => this.#enter(call));
    // Whoever made that call hears of its failure.
    this.#last = result.catch(() => undefined);
    this.#load += 1;
    try {
      return await result;
    } finally {
      this.#load -= 1;
    }
  }

  /** Gives the instance up: what is inside never comes back. */
  abandon(reason: string): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#options.log?.('error', 'instance replaced', { reason });
    this.#options.ended?.();
  }

  async #enter<T>(call: (exports: E) => Awaitable<T>): Promise<T> {
    if (this.#failed) {
      throw new InstanceError('this belongs to an instance of the component that failed: open it again');
    }
    try {
      return await call(this.exports);
    } catch (error) {
      if (this.#options.declared(error)) throw error;
      this.abandon(error instanceof Error ? error.name : typeof error);
      throw new InstanceError('the component failed inside this call', { cause: error });
    }
  }
}

export interface PoolOptions<E extends object> {
  /** Makes an instance: what the transpiled component's `instantiate` returns. `givenUp` is aborted when it has ended. */
  make(givenUp: GivenUp): Awaitable<E>;
  /** Whether a thrown value is a result that the WIT declares; by default, whether it has a `payload`. */
  readonly declared?: ((thrown: unknown) => boolean) | undefined;
  /** How many instances there are at most. 16 by default: as many calls may wait at the same time. */
  readonly size?: number | undefined;
  /** How long a call may take, in milliseconds, until its instance is given up. Without it, for ever. */
  readonly limit?: number | undefined;
  /** Hears `instance replaced`, once for each instance that failed. */
  readonly log?: Log | undefined;
}

/**
 * Instances of a component that is suspended while it waits. Each call has one to itself.
 *
 * A call that traps, or takes longer than `limit`, costs itself: its instance is given up, and others go on.
 */
export class Pool<E extends object> {
  readonly #options: PoolOptions<E>;
  readonly #size: number;
  readonly #idle: SuspendingInstance<E>[] = [];
  readonly #next: (() => void)[] = [];
  #count = 0;

  /** Fails with `RangeError` if `size` is no whole number of 1 or more, or `limit` none of 1 or more. */
  constructor(options: PoolOptions<E>) {
    this.#options = options;
    const { size = 16, limit = 1 } = options;
    if (!Number.isInteger(size) || size < 1) throw new RangeError(`size: expected 1 or more, received ${size}`);
    if (!(limit >= 1)) throw new RangeError(`limit: expected 1 millisecond or more, received ${limit}`);
    this.#size = size;
  }

  /** Runs a call in an instance of its own: one that is idle, a new one, or the next that becomes idle. */
  async run<T>(call: (exports: E) => Awaitable<T>): Promise<T> {
    const instance = await this.#take();
    const guard = this.#guard(instance);
    try {
      return await Promise.race([instance.run(call), guard.late]);
    } finally {
      guard.end();
      if (instance.failed) this.#count -= 1;
      else this.#idle.push(instance);
      this.#next.shift()?.();
    }
  }

  async #take(): Promise<SuspendingInstance<E>> {
    for (;;) {
      const idle = this.#idle.pop();
      if (idle !== undefined) return idle;
      if (this.#count < this.#size) return this.#make();
      await new Promise<void>((resolve) => this.#next.push(resolve));
    }
  }

  async #make(): Promise<SuspendingInstance<E>> {
    this.#count += 1;
    try {
      const { declared = hasPayload, log } = this.#options;
      const givenUp = new AbortController();
      const ended = () => givenUp.abort();
      return new SuspendingInstance(await this.#options.make(givenUp.signal), { declared, log, ended });
    } catch (error) {
      this.#count -= 1;
      this.#next.shift()?.();
      throw error;
    }
  }

  #guard(instance: SuspendingInstance<E>): { late: Promise<never>; end: () => void } {
    const { limit } = this.#options;
    const { promise: late, reject } = Promise.withResolvers<never>();
    if (limit === undefined) return { late, end: () => undefined };
    const timer = setTimeout(() => {
      instance.abandon('too long');
      reject(new InstanceError(`the component took longer than ${limit} ms for this call`));
    }, limit);
    return { late, end: () => clearTimeout(timer) };
  }
}

/** The glue wraps what the WIT declares into an error with a payload. */
export function hasPayload(thrown: unknown): boolean {
  return thrown instanceof Error && Object.hasOwn(thrown, 'payload');
}
