import { askable, type Asking, askTimeout, cannotAsk, push } from './asking.ts';
import { BucketError } from './bucket/bucket.ts';
import { type Call, RpcError } from './call.ts';
import { Exchange } from './exchange.ts';
import { noteOf, takeOver } from './interrupted.ts';
import { type Known, nothingKnown } from './known.ts';
import type { Log } from './log.ts';
import { NeedInput, type Question } from './questions.ts';
import { leave, take } from './request-state.ts';
import { Progress, Run } from './run.ts';
import type { Result } from './results.ts';
import type { Json } from './session.ts';

/** How often a handler may ask by `NeedInput` within one pushed call, and over all calls of one round trip. */
const pushedRounds = 8;
const statedRounds = 32;

/** What is run for a request: a handler and what becomes of its failure. */
export interface Target {
  /** Whether this kind of request may ask the client (multi round-trip requests page, 2026-07-28). */
  readonly mayAsk: boolean;
  run(exchange: Exchange): Promise<Result>;
  /** The result for a failure, or an error to throw. */
  fail(text: string): Result;
}

/** What running a handler needs beside its call. */
export interface Running extends Asking {
  readonly log: Log;
}

/** Runs a handler until it has a result, or until the client has to answer first and will call again. */
export async function invoke(call: Call, target: Target, running: Running): Promise<Result> {
  const isModern = call.revision === '2026-07-28';
  let known = (isModern && target.mayAsk ? await takeIfBrought(call) : undefined) ?? nothingKnown;
  const progress = new Progress();
  for (;;) {
    const run = new Run(call, known, target.mayAsk, progress);
    try {
      return await runOnce(run, target, running);
    } catch (error) {
      const rethrown = protocolError(error);
      if (rethrown !== undefined) throw rethrown;
      if (!NeedInput.is(error)) return target.fail(run.discreet(messageOf(error)));
      try {
        const next = await settle(run, error, running);
        if ('result' in next) return next.result;
        ({ known } = next);
      } catch (failure) {
        const thrown = protocolError(failure);
        if (thrown !== undefined) throw thrown;
        return target.fail(run.discreet(messageOf(failure)));
      }
    } finally {
      run.release();
    }
  }
}

/** Runs a handler once and closes what it used, before anybody is answered or asked. */
async function runOnce(run: Run, target: Target, running: Running): Promise<Result> {
  let thrown: Error | undefined;
  try {
    return await target.run(new Exchange(run, running));
  } catch (error) {
    thrown = error instanceof Error ? error : new Error('the handler threw what is no error', { cause: error });
    throw error;
  } finally {
    await run.end(thrown, running.log);
  }
}

async function takeIfBrought(call: Call): Promise<Known | undefined> {
  const { requestState, inputResponses } = call.params;
  return requestState === undefined && inputResponses === undefined ? undefined : await take(call);
}

/** Has the questions of a handler answered, or leaves them to the next call. */
async function settle(
  run: Run,
  need: NeedInput,
  asking: Asking,
): Promise<{ readonly known: Known } | { readonly result: Result }> {
  const { call } = run;
  if (!run.mayAsk) throw new Error('the client cannot be asked during this request');
  const open = Object.entries(need.questions).filter(([key]) => !run.answers.has(key));
  if (open.length === 0) throw new Error('the handler asks what was answered already');
  const asked = new Map<string, Question>();
  for (const [key, question] of open) {
    const phrased = askable(call, question);
    if (phrased !== undefined) asked.set(key, phrased);
  }
  // Who can answer a part is asked that part; the handler may come to do without the rest.
  if (asked.size === 0) throw cannotAsk(call, ...open.map(([, question]) => question));
  const limit = call.canPush ? pushedRounds : statedRounds;
  const rounds = run.known.rounds + 1;
  if (rounds > limit) throw new Error(`the handler still asks after ${limit} rounds`);
  let state: Json | undefined = need.state === undefined ? run.known.state : need.state;
  if (!call.canPush) return { result: await leave(call, { answers: run.answers, state, rounds }, asked) };
  const before = await takeOver(call, asked, asking);
  for (const [key, answer] of before?.answers ?? []) run.keep(key, answer);
  // What was answered was asked about that state.
  if (before?.state !== undefined) ({ state } = before);
  for (const [key, question] of asked) {
    if (run.answers.has(key)) continue;
    const note = noteOf(call, key, { answers: run.answers, state, rounds });
    run.keep(key, await push(call, { question, timeout: askTimeout, note }, asking));
  }
  if (call.signal.aborted) throw new Error('the call was cancelled');
  return { known: { answers: run.answers, state, rounds } };
}

/** What is no failure of the handler: an error response of its choice, or a bucket that failed. */
function protocolError(error: unknown): Error | undefined {
  if (error instanceof BucketError || error instanceof RpcError) return error;
  if (!(error instanceof Error) || error.name !== 'RpcError') return undefined;
  // One of another copy of this package.
  const { code, data, message } = error as RpcError;
  return Number.isInteger(code) ? new RpcError(code, message, data, { cause: error }) : undefined;
}

function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : 'the handler failed';
}
