import { randomBytes } from 'node:crypto';
import { BucketError } from './bucket/bucket.ts';
import { type Call, RpcError, ServerClosing } from './call.ts';
import type { Hub } from './hub.ts';
import { Answer, canAnswer, capabilityOf, phrased, type Question } from './questions.ts';
import { codes } from './rpc.ts';
import { type Json, type Session, SessionError, type StoredQuestion } from './session.ts';

/** How long a pushed question waits for its answer, in milliseconds. */
export const askTimeout = 120_000;
/** How often the bucket is looked at for an answer that another process stored, in milliseconds. */
export const lookAgain = 200;

/** What asking needs beside the call. */
export interface Asking {
  readonly hub: Hub;
  /** Milliseconds since 1970, by the clock of the sessions. */
  readonly now: () => number;
}

/** The question as the client of this call is asked it; `undefined` if it cannot be. */
export function askable(call: Call, question: Question): Question | undefined {
  const { canPush, revision, clientCapabilities } = call;
  if (!canPush && revision !== '2026-07-28') return undefined;
  return canAnswer(clientCapabilities, question) ? phrased(question, revision) : undefined;
}

/** Why the client of this call can be asked none of these questions. */
export function cannotAsk(call: Call, ...questions: readonly Question[]): Error {
  const { canPush, revision, clientCapabilities } = call;
  const needed: Record<string, object> = {};
  for (const [name, parts] of questions.flatMap((question) => Object.entries(capabilityOf(question)))) {
    needed[name] = { ...needed[name], ...parts };
  }
  const names = Object.keys(needed).join(', ');
  if (revision === '2026-07-28') {
    const data = { requiredCapabilities: needed } as Json;
    return new RpcError(codes.missingCapability, `The client did not declare what this needs: ${names}`, data);
  }
  const because = (why: string) => new Error(`the client cannot be asked: ${why}`);
  if (revision === '2025-03-26') return because('revision 2025-03-26 has no questions in the middle of a call');
  if (!canPush) return because('it has no session');
  const isDeclared = questions.some((question) => canAnswer(clientCapabilities, question));
  if (!isDeclared) return because(`it did not declare what this needs: ${names}`);
  return because(`revision ${revision} has no words for this question`);
}

/** A question for the stream of a call. */
export interface Pushed {
  /** As {@link askable} gave it. */
  readonly question: Question;
  /** Milliseconds. */
  readonly timeout: number;
  /** What to remember with it. */
  readonly note: string;
}

/** Puts a question on the stream of a call and waits for its answer. */
export async function push(call: Call, { question, timeout, note }: Pushed, { hub, now }: Asking): Promise<Answer> {
  const { session, signal } = call;
  if (session === null) throw cannotAsk(call, question);
  if (signal.aborted) return new Answer('cancel');
  const id = randomBytes(24).toString('base64url');
  const { method } = question;
  const isPage = question.params.mode === 'url';
  const params = isPage
    ? { ...question.params, elicitationId: randomBytes(24).toString('base64url') }
    : question.params;
  const until = now() + timeout;
  // Stored before it is sent: the answer can come at once, and to another process.
  await session.ask(id, method, params, until, note);
  call.push(id, method, params);
  for (;;) {
    // Listened before it is looked: what comes between is heard.
    const pause = pauseOf(lookAgain, signal);
    try {
      const woken = hub.wait(id, pause.signal);
      // The time before the look: what was answered in time is there when it is looked for late.
      const isLate = now() >= until;
      const stored = await look(session, id, isLate || signal.aborted);
      if (stored === undefined) return new Answer('cancel');
      const { answer } = stored;
      if (answer === undefined && !isLate && !signal.aborted) {
        await woken;
        continue;
      }
      // The call can be made again, and then finds the answer.
      if (signal.reason instanceof ServerClosing) return new Answer('cancel');
      const isSettled = await settle(session, id, answer === undefined ? (isLate ? 'expire' : 'forget') : 'take');
      if (answer === undefined) {
        const reason = 'nobody answered in time';
        if (isLate) call.notify({ method: 'notifications/cancelled', params: { requestId: id, reason } });
        return new Answer('cancel');
      }
      // Another call took it for the answer of a dead one, or the session is gone: it is not used twice.
      if (!isSettled) return new Answer('cancel');
      return 'error' in answer ? new Answer('cancel', {}, answer.error) : Answer.of({ method, params }, answer.result);
    } finally {
      pause.end();
    }
  }
}

/** The question as it is stored now. A bucket that does not answer has no answer yet; it is the last look that fails. */
async function look(session: Session, id: string, isLast: boolean): Promise<Partial<StoredQuestion> | undefined> {
  try {
    return await session.question(id);
  } catch (error) {
    if (isLast || !(error instanceof BucketError)) throw error;
    return {};
  }
}

/** A signal that is aborted after some time, or with `earlier`. Unlike those of the platform it keeps the process alive. */
export function pauseOf(milliseconds: number, earlier: AbortSignal): { signal: AbortSignal; end: () => void } {
  const late = new AbortController();
  const timeout = setTimeout(() => late.abort(), milliseconds);
  const end = () => {
    clearTimeout(timeout);
    late.abort();
  };
  return { signal: AbortSignal.any([earlier, late.signal]), end };
}

/** Returns whether the question was still there to be settled. */
async function settle(session: Session, id: string, how: 'expire' | 'forget' | 'take'): Promise<boolean> {
  try {
    await session[how](id);
    return true;
  } catch (error) {
    if (error instanceof SessionError) return false;
    throw error;
  }
}
