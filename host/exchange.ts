import {
  type Call,
  type Implementation,
  logLevels,
  type ProtocolLogLevel,
  type Revision,
  type WebRequest,
} from './call.ts';
import { type Asking, askable, askTimeout, cannotAsk, push } from './asking.ts';
import { Dependency } from './dependencies.ts';
import { noteOf, takeOver } from './interrupted.ts';
import { type Answer, NeedInput, type Question } from './questions.ts';
import type { Run } from './run.ts';
import type { Json, Session } from './session.ts';

/** Sessions that the caller names by a handle, an ordinary argument: on every revision. */
export interface Handles {
  /** A new session; its `id` is the handle that the caller must keep. */
  open(): Promise<Session>;
  /** The session of that handle, renewed; `undefined` if it is unknown, expired, or somebody else's. */
  use(handle: string): Promise<Session | undefined>;
}

/** One client request and everything sent back for it. Made for one run of a handler, and useless after it. */
export class Exchange {
  readonly #run: Run;
  readonly #asking: Asking;
  readonly #dependency: Dependency<unknown> | undefined;
  #handles: Handles | undefined;

  /** `dependency` is the one that this exchange is given to; that of a handler has none. */
  constructor(run: Run, asking: Asking, dependency?: Dependency<unknown>) {
    this.#run = run;
    this.#asking = asking;
    this.#dependency = dependency;
  }

  /** The session that the request names, or `null` where there is none: 2026-07-28, stateless mode. */
  get session(): Session | null {
    return this.#run.call.session;
  }

  /** Sessions by handle. None expires as long as this call runs. */
  get sessions(): Handles {
    const run = this.#run;
    this.#handles ??= {
      open: async () => {
        const { sessions, scope } = run.running;
        return run.hold(await sessions.create('handle', scope, {}));
      },
      use: async (handle) => {
        const { sessions, scope } = run.running;
        if (typeof handle !== 'string') return undefined;
        const session = await sessions.open('handle', scope, handle);
        return session && run.hold(session);
      },
    };
    return this.#handles;
  }

  /** What the client says it is; no proof of who it is. */
  get clientInfo(): Implementation | undefined {
    return this.#run.call.clientInfo;
  }

  get clientCapabilities(): { readonly [name: string]: Json } {
    return this.#run.call.clientCapabilities;
  }

  get revision(): Revision {
    return this.#run.call.revision;
  }

  get request(): WebRequest {
    return this.#run.call.request;
  }

  /** The verified principal; `undefined` where nobody is verified. */
  get owner(): string | undefined {
    return this.#run.call.scope.owner;
  }

  /** Aborted when the client gave the call up, by the rules of its revision. */
  get signal(): AbortSignal {
    return this.#run.call.signal;
  }

  get cancelled(): boolean {
    return this.#run.call.signal.aborted;
  }

  /** Resolves when the call is cancelled. */
  waitCancelled(): Promise<void> {
    const { signal } = this.#run.call;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  /** Tells the client how far the call is. Sent only if the client gave a token and `done` grew (progress page). */
  progress(done: number, total?: number, message?: string): void {
    const call = this.#run.running;
    const { progressToken } = call;
    if (progressToken === undefined || call.signal.aborted || !this.#run.progress.advance(done)) return;
    const params = {
      progressToken,
      progress: done,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message }),
    };
    call.notify({ method: 'notifications/progress', params });
  }

  /** Sends a message to the client, if it asked for messages of that severity. */
  log(level: ProtocolLogLevel, data: Json, logger?: string): void {
    const severity = logLevels.indexOf(level);
    if (severity < 0) throw new TypeError(`log: expected one of ${logLevels.join(', ')}`);
    const call = this.#run.running;
    const { logLevel } = call;
    if (logLevel === undefined || severity < logLevels.indexOf(logLevel) || call.signal.aborted) return;
    const params = { level, ...(logger !== undefined && { logger }), data };
    call.notify({ method: 'notifications/message', params });
  }

  /**
   * Gives the client's connection up while the call goes on: the client comes back, after `retry` milliseconds or what the
   * server says otherwise, for what was sent meanwhile and what follows. For a call that takes long. Returns whether the
   * client will come back; where it could not (other revisions than 2025-11-25, no session, stdio) nothing happens.
   */
  closeStream(retry?: number): boolean {
    if (retry !== undefined && !(Number.isSafeInteger(retry) && retry >= 0)) {
      throw new TypeError('closeStream: expected a whole number of milliseconds, 0 or more');
    }
    return this.#run.running.closeStream(retry);
  }

  /**
   * What the application provides under a dependency: made at its first use in this run, the same one for every use, closed
   * after the run. Fails as making it failed.
   */
  async resolve<T>(dependency: Dependency<T>): Promise<T> {
    if (!Dependency.is(dependency))
      throw new TypeError('resolve: expected a dependency, as Registry.provide returns it');
    const exchangeFor = (one: Dependency<unknown>) => new Exchange(this.#run, this.#asking, one);
    return (await this.#run.dependencies.get(dependency, this.#dependency, exchangeFor)) as T;
  }

  /** The state that the last {@link NeedInput} left; `undefined` in the first run. */
  get state(): Json | undefined {
    return this.#run.known.state;
  }

  /** Whether the question of that key was answered, with whatever answer. */
  answered(key: string): boolean {
    return this.#run.answers.has(key);
  }

  /** The answer to the question of that key; `undefined` if there is none yet. */
  answer(key: string): Answer | undefined {
    return this.#run.answers.get(key);
  }

  /**
   * Asks the client. Where the revision delivers questions on the open stream this waits for the answer; on 2026-07-28 the
   * handler ends here and is run again with the answer. Either way the question is stored before it is sent: if this process
   * dies over it, the same call, made again to any process, goes on with the answer that was given meanwhile. After `timeout` milliseconds without one the answer is `cancel`.
   * A client that cannot be asked gets `default`, or the call fails.
   */
  async ask(
    key: string,
    question: Question,
    more: { readonly default?: Answer | undefined; readonly timeout?: number | undefined } = {},
  ): Promise<Answer> {
    const run = this.#run;
    const call = run.running;
    const known = run.answers.get(key);
    if (known !== undefined) return known;
    const { timeout = askTimeout } = more;
    if (!(timeout > 0 && Number.isFinite(timeout))) throw new TypeError('ask: expected a timeout above 0 milliseconds');
    const asked = run.mayAsk ? askable(call, question) : undefined;
    if (asked === undefined) {
      if (more.default !== undefined) return more.default;
      throw this.#refusal(call, question);
    }
    if (!call.canPush) throw new NeedInput({ [key]: question });
    return run.ask(key, async () => {
      const before = await takeOver(call, new Map([[key, asked]]), this.#asking);
      for (const [other, answer] of before?.answers ?? []) run.keep(other, answer);
      const note = noteOf(call, key, { ...run.known, answers: run.answers });
      return run.answers.get(key) ?? push(call, { question: asked, timeout, note }, this.#asking);
    });
  }

  #refusal(call: Call, question: Question): Error {
    return this.#run.mayAsk ? cannotAsk(call, question) : new Error('the client cannot be asked during this request');
  }
}
