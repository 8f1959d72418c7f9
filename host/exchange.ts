import { randomBytes } from 'node:crypto';
import {
  type Call,
  type Implementation,
  logLevels,
  type ProtocolLogLevel,
  type Revision,
  RpcError,
  type WebRequest,
} from './call.ts';
import type { Hub } from './hub.ts';
import { Answer, canAnswer, capabilityOf, NeedInput, type Question } from './questions.ts';
import type { Json, Session } from './session.ts';

/** How long a pushed question waits for its answer, in milliseconds. */
export const askTimeout = 120_000;
/** How often the bucket is looked at for an answer that another process stored, in milliseconds. */
const lookAgain = 200;

/** What a handler knows when it is run again: the answers so far, and the state it left. */
export interface Known {
  readonly answers: ReadonlyMap<string, Answer>;
  readonly state: Json | undefined;
}

const revisionsWithQuestions: readonly Revision[] = ['2025-06-18', '2025-11-25', '2026-07-28'];

/** One client request and everything sent back for it. Made for one run of a handler, and useless after it. */
export class Exchange {
  readonly #call: Call;
  readonly #hub: Hub;
  readonly #answers: Map<string, Answer>;
  readonly state: Json | undefined;
  #progress = Number.NEGATIVE_INFINITY;
  #isOver = false;

  constructor(call: Call, hub: Hub, known: Known) {
    this.#call = call;
    this.#hub = hub;
    this.#answers = new Map(known.answers);
    this.state = known.state;
  }

  /** The session that the request names, or `null` where there is none: 2026-07-28, stateless mode. */
  get session(): Session | null {
    return this.#call.session;
  }

  /** Sessions that the caller names by a handle, an ordinary argument: on every revision. */
  readonly sessions = {
    /** A new session; its `id` is the handle that the caller must keep. */
    open: (): Promise<Session> => this.#running().sessions.create('handle', this.#call.scope, {}),
    /** The session of that handle; `undefined` if it is unknown, expired, or somebody else's. */
    use: (handle: string): Promise<Session | undefined> =>
      this.#running().sessions.open('handle', this.#call.scope, handle),
  };

  get clientInfo(): Implementation | undefined {
    return this.#call.clientInfo;
  }

  get clientCapabilities(): { readonly [name: string]: Json } {
    return this.#call.clientCapabilities;
  }

  get revision(): Revision {
    return this.#call.revision;
  }

  get request(): WebRequest {
    return this.#call.request;
  }

  /** The verified principal; `undefined` where nobody is verified. */
  get owner(): string | undefined {
    return this.#call.scope.owner;
  }

  /** Aborted when the client gave the call up, by the rules of its revision. */
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get cancelled(): boolean {
    return this.#call.signal.aborted;
  }

  /** Resolves when the call is cancelled. */
  waitCancelled(): Promise<void> {
    const { signal } = this.#call;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  /** Tells the client how far the call is. Sent only if the client gave a token and `done` grew (progress page). */
  progress(done: number, total?: number, message?: string): void {
    const { progressToken } = this.#running();
    if (progressToken === undefined || this.cancelled || !(done > this.#progress)) return;
    this.#progress = done;
    const params = {
      progressToken,
      progress: done,
      ...(total !== undefined && { total }),
      ...(message !== undefined && { message }),
    };
    this.#call.notify({ method: 'notifications/progress', params });
  }

  /** Sends a message to the client, if it asked for messages of that severity. */
  log(level: ProtocolLogLevel, data: Json, logger?: string): void {
    const severity = logLevels.indexOf(level);
    if (severity < 0) throw new TypeError(`log: expected one of ${logLevels.join(', ')}`);
    const { logLevel } = this.#running();
    if (logLevel === undefined || this.cancelled || severity < logLevels.indexOf(logLevel)) return;
    this.#call.notify({
      method: 'notifications/message',
      params: { level, ...(logger !== undefined && { logger }), data },
    });
  }

  /** Whether the question of that key was answered, with whatever answer. */
  answered(key: string): boolean {
    return this.#answers.has(key);
  }

  /** The answer to the question of that key; `undefined` if there is none yet. */
  answer(key: string): Answer | undefined {
    return this.#answers.get(key);
  }

  /**
   * Asks the client. Where the revision delivers questions on the open stream this waits for the answer; on 2026-07-28 the
   * handler ends here and is run again with the answer. After `timeout` milliseconds without one the answer is `cancel`.
   * A client that cannot be asked gets `default`, or the call fails.
   */
  async ask(
    key: string,
    question: Question,
    more: { readonly default?: Answer; readonly timeout?: number } = {},
  ): Promise<Answer> {
    const call = this.#running();
    const known = this.#answers.get(key);
    if (known !== undefined) return known;
    if (!this.#canAsk(question)) {
      if (more.default !== undefined) return more.default;
      throw this.cannotAsk(question);
    }
    if (!call.canPush) throw new NeedInput({ [key]: question });
    const answer = await this.push(question, more.timeout ?? askTimeout);
    this.#answers.set(key, answer);
    return answer;
  }

  /** Why the client cannot be asked. */
  cannotAsk(question: Question): Error {
    const { revision } = this.#call;
    if (revision === '2026-07-28') {
      const data = { requiredCapabilities: capabilityOf(question) };
      return new RpcError(-32021, 'The client declared no capability for this question', data);
    }
    const why = revisionsWithQuestions.includes(revision)
      ? 'it declared no capability for it'
      : `${revision} has no questions`;
    return new Error(`the client cannot be asked: ${why}`);
  }

  /** Puts a question on the stream of this call and waits for its answer. */
  async push(question: Question, timeout: number): Promise<Answer> {
    const { session, signal } = this.#call;
    if (session === null || !this.#canAsk(question)) throw this.cannotAsk(question);
    const id = randomBytes(24).toString('base64url');
    const until = Date.now() + timeout;
    // Stored before it is sent: the answer can come at once, and to another process.
    await session.ask(id, question.method, question.params, until);
    this.#call.push(id, question.method, question.params);
    while (!signal.aborted && Date.now() < until) {
      const stored = await session.question(id);
      if (stored === undefined) return new Answer('cancel');
      if (stored.answer !== undefined) {
        await session.forget(id);
        if ('error' in stored.answer) throw new Error('the client answered the question with an error');
        return Answer.of(stored.answer.result);
      }
      const pause = AbortSignal.any([
        signal,
        AbortSignal.timeout(Math.min(lookAgain, Math.max(1, until - Date.now()))),
      ]);
      await this.#hub.wait(id, pause);
    }
    return new Answer('cancel');
  }

  /** Ends the exchange: whoever kept it can do nothing with it. */
  end(): void {
    this.#isOver = true;
  }

  #canAsk(question: Question): boolean {
    const { revision, clientCapabilities, canPush } = this.#call;
    if (!revisionsWithQuestions.includes(revision) || !canAnswer(clientCapabilities, question)) return false;
    return canPush || revision === '2026-07-28';
  }

  #running(): Call {
    if (this.#isOver) throw new Error('the exchange is over: its call has ended');
    return this.#call;
  }
}
