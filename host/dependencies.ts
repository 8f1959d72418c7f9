import type { Exchange } from './exchange.ts';
import type { Awaitable } from './offered.ts';

/** How a dependency comes and goes. */
export interface DependencyOptions<T> {
  /** Makes it, at its first use in a run of a handler. The exchange is that of the run; other dependencies come from it. */
  open(exchange: Exchange): T | Promise<T>;
  /** Closes it after the run. `error` is what the handler threw, {@link NeedInput} included; `undefined` if it returned. */
  close?(value: T, error: Error | undefined): Awaitable<unknown>;
}

const brand = Symbol.for('mcp-session.dependency');

/** What handlers need beside their arguments, such as a transaction. `Exchange.resolve` gives the one of its run. */
export class Dependency<T> {
  readonly [brand] = true;
  readonly name: string;
  readonly #options: DependencyOptions<T>;

  constructor(name: string, options: DependencyOptions<T>) {
    this.name = name;
    this.#options = options;
  }

  /** Whether something is one, also one of another copy of this package. */
  static is(value: unknown): value is Dependency<unknown> {
    return typeof value === 'object' && value !== null && brand in value;
  }

  open(exchange: Exchange): T | Promise<T> {
    return this.#options.open(exchange);
  }

  close(value: T, error: Error | undefined): Awaitable<unknown> {
    return this.#options.close?.(value, error);
  }
}

type Any = Dependency<unknown>;

/** The dependencies of one run of a handler. */
export class Dependencies {
  readonly #made = new Map<Any, Promise<unknown>>();
  /** In the order in which they were ready. */
  readonly #values = new Map<Any, unknown>();
  /** Which others each one has asked for. */
  readonly #needs = new Map<Any, Set<Any>>();

  /** The value of this run, made if this is its first use. `user` is the dependency that asks for it, if it is one. */
  get(dependency: Any, user: Any | undefined, exchangeFor: (dependency: Any) => Exchange): Promise<unknown> {
    if (user !== undefined) this.#connect(user, dependency);
    const known = this.#made.get(dependency);
    if (known !== undefined) return known;
    const made = this.#make(dependency, exchangeFor(dependency));
    // Who awaits it hears of a failure, be it later; nobody else must end for it.
    made.catch(() => undefined);
    this.#made.set(dependency, made);
    return made;
  }

  /** Closes all that was made, each before those that it uses. `failed` hears of what could not be closed. */
  async close(error: Error | undefined, failed: (name: string, error: unknown) => void): Promise<void> {
    // What a handler did not wait for may still be on its way.
    await Promise.allSettled(this.#made.values());
    for (const dependency of this.#inClosingOrder()) {
      try {
        await dependency.close(this.#values.get(dependency), error);
      } catch (failure) {
        failed(dependency.name, failure);
      }
    }
  }

  async #make(dependency: Any, exchange: Exchange): Promise<unknown> {
    const value = await dependency.open(exchange);
    this.#values.set(dependency, value);
    return value;
  }

  #connect(user: Any, used: Any): void {
    const way = this.#way(used, user);
    if (way !== undefined) {
      const names = [user, ...way].map(({ name }) => `"${name}"`);
      throw new TypeError(`the dependencies need each other: ${names.join(' needs ')}`);
    }
    const needs = this.#needs.get(user);
    if (needs === undefined) this.#needs.set(user, new Set([used]));
    else needs.add(used);
  }

  /** From one dependency over what each needs to another. */
  #way(from: Any, to: Any): Any[] | undefined {
    if (from === to) return [to];
    for (const next of this.#needs.get(from) ?? []) {
      const rest = this.#way(next, to);
      if (rest !== undefined) return [from, ...rest];
    }
    return undefined;
  }

  #inClosingOrder(): Iterable<Any> {
    const order = new Set<Any>();
    const add = (dependency: Any) => {
      if (order.has(dependency)) return;
      for (const [user, needs] of this.#needs) if (needs.has(dependency)) add(user);
      if (this.#values.has(dependency)) order.add(dependency);
    };
    for (const dependency of [...this.#values.keys()].reverse()) add(dependency);
    return order;
  }
}
