/** How long a question waits, in milliseconds. */
export const askTime = 120_000;

/** A call that asks one question, as the model sees it. */
export interface ModelledCall {
  readonly process: number;
  readonly session: number;
  /** Its arguments. */
  readonly x: number;
  readonly until: number;
  /** Whether its question is in the bucket. */
  isAsked: boolean;
  isAlive: boolean;
  answer: string | undefined;
  /** What it must end with; `undefined` while it waits, and for ever if its process died. */
  outcome: string | undefined;
}

/** What is to come of questions on two sessions: the promises, in a few lines and without any I/O. */
export class AskingModel {
  time = 0;
  readonly calls: ModelledCall[] = [];
  readonly ended = [false, false];

  /** A call begins; if an equal one died over its question, and that was answered meanwhile, this one has its answer. */
  call(process: number, session: number, x: number): ModelledCall {
    const left = this.#leftBy(session, x);
    if (left !== undefined) left.isAsked = false;
    const call: ModelledCall = {
      process,
      session,
      x,
      until: this.time + askTime,
      isAsked: left === undefined,
      isAlive: true,
      answer: undefined,
      outcome: left?.answer,
    };
    this.calls.push(call);
    return call;
  }

  /** Somebody with a session answers; returns what they hear. */
  answer(call: ModelledCall, session: number, reply: string): string {
    const isOpen = call.isAsked && call.answer === undefined && this.time < call.until;
    if (!isOpen || session !== call.session) return 'no-such-question';
    if (reply === 'misfit') return 'misfit';
    call.answer = reply;
    if (call.isAlive) this.#finish(call, reply === 'error' ? 'cancel' : reply);
    return 'stored';
  }

  cancel(call: ModelledCall): void {
    if (call.isAlive) this.#finish(call, 'cancel');
  }

  die(process: number): void {
    for (const call of this.calls) if (call.process === process) call.isAlive = false;
  }

  wait(milliseconds: number): void {
    this.time += milliseconds;
    for (const call of this.calls) if (call.isAlive && this.time >= call.until) this.#finish(call, 'cancel');
  }

  end(session: number): void {
    this.ended[session] = true;
    for (const call of this.calls) if (call.session === session && call.isAlive) this.#finish(call, 'cancel');
  }

  /** The calls whose question must be in the bucket. */
  asked(session: number): ModelledCall[] {
    if (this.ended[session]) return [];
    return this.calls.filter((call) => call.session === session && call.isAsked && this.time < call.until);
  }

  #finish(call: ModelledCall, outcome: string): void {
    if (call.outcome !== undefined) return;
    call.outcome = outcome;
    call.isAsked = false;
  }

  #leftBy(session: number, x: number): ModelledCall | undefined {
    const left = this.asked(session).filter((call) => {
      return !call.isAlive && call.x === x && call.answer !== undefined && call.answer !== 'error';
    });
    const newest = Math.max(...left.map(({ until }) => until));
    return left.find(({ until }) => until === newest);
  }
}
