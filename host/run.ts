import type { Call } from './call.ts';
import { Dependencies } from './dependencies.ts';
import type { Known } from './known.ts';
import { type Log, traceOf } from './log.ts';
import type { Answer } from './questions.ts';
import type { Session } from './session.ts';

/** How far a call is, over all runs of its handler: what the client is told only grows (progress page). */
export class Progress {
  #done = Number.NEGATIVE_INFINITY;

  /** Takes note of how far the call is. Returns whether that is further than before. */
  advance(done: number): boolean {
    if (!(done > this.#done) || !Number.isFinite(done)) return false;
    this.#done = done;
    return true;
  }
}

/** One run of a handler, from its first line to its last. The exchange is the handler's side of it. */
export class Run {
  readonly known: Known;
  /** Whether the request is of a kind that may ask the client. */
  readonly mayAsk: boolean;
  readonly progress: Progress;
  readonly #call: Call;
  readonly #asking = new Map<string, Promise<Answer>>();
  #answers: Map<string, Answer> | undefined;
  #held: { readonly id: string; readonly release: () => void }[] | undefined;
  #dependencies: Dependencies | undefined;
  #isOver = false;

  constructor(call: Call, known: Known, mayAsk: boolean, progress: Progress) {
    this.#call = call;
    this.known = known;
    this.mayAsk = mayAsk;
    this.progress = progress;
  }

  /** The call, as it is to be read. */
  get call(): Call {
    return this.#call;
  }

  /** The call, to send or write something for it. Fails when the run is over: nobody is there who would hear of it. */
  get running(): Call {
    if (this.#isOver) throw over();
    return this.#call;
  }

  /** The answers so far, those of this run included. */
  get answers(): ReadonlyMap<string, Answer> {
    return this.#answers ?? this.known.answers;
  }

  keep(key: string, answer: Answer): void {
    this.#answers ??= new Map(this.known.answers);
    this.#answers.set(key, answer);
  }

  /** Has one question answered under a key. Who asks under the same key meanwhile waits for the same answer. */
  async ask(key: string, answered: () => Promise<Answer>): Promise<Answer> {
    const asking = this.#asking.get(key);
    if (asking !== undefined) return asking;
    const asked = answered();
    this.#asking.set(key, asked);
    try {
      const answer = await asked;
      this.keep(key, answer);
      return answer;
    } finally {
      this.#asking.delete(key);
    }
  }

  /** What the handler and its dependencies have resolved. Fails when the run is over: nobody would close it. */
  get dependencies(): Dependencies {
    if (this.#isOver) throw over();
    this.#dependencies ??= new Dependencies();
    return this.#dependencies;
  }

  /** Keeps a session from expiring until {@link release}. */
  hold(session: Session): Session {
    this.#held ??= [];
    this.#held.push({ id: session.id, release: session.use() });
    return session;
  }

  /** `text` without the ids of the sessions that this run knows. */
  discreet(text: string): string {
    const ids = [this.#call.session?.id, ...(this.#held ?? []).map(({ id }) => id)];
    return ids.reduce<string>((rest, id) => (id === undefined ? rest : rest.replaceAll(id, '[id]')), text);
  }

  /** Ends the run and closes what it resolved. `error` is what the handler threw. */
  async end(error: Error | undefined, log: Log): Promise<void> {
    this.#isOver = true;
    // The outcome of the handler stands: what cannot be closed is nothing that the client could help.
    await this.#dependencies?.close(error, (dependency, failure) => {
      log('error', 'dependency not closed', { dependency, error: this.discreet(traceOf(failure)) });
    });
  }

  /** Lets go of the sessions: nothing of the run is of use to the call any more. */
  release(): void {
    for (const { release } of this.#held ?? []) release();
  }
}

function over(): Error {
  return new Error('the exchange is over: its call has ended');
}
