import { type Asking, lookAgain, pauseOf } from './asking.ts';
import { bindingOf, canonical } from './binding.ts';
import type { Call } from './call.ts';
import { answersFromJson, answersToJson, type Known } from './known.ts';
import { Answer, type Question } from './questions.ts';
import { type Json, type Session, SessionError, type StoredQuestion } from './session.ts';

/** How often whoever asked could have looked for its answer before it is taken for dead. */
const patience = 3;

/** What a pushed question is stored with, so that its call can be made again when the process that asked has died. */
interface Note {
  readonly call: string;
  readonly key: string;
  readonly answers: Json;
  readonly state?: Json;
  readonly rounds: number;
}

/** A question that was answered, and its call. */
interface Left {
  readonly id: string;
  readonly note: Note;
  readonly answer: Answer;
}

/** The note to store a question with that is asked under `key`, by a handler that knows `known`. */
export function noteOf(call: Call, key: string, { answers, state, rounds }: Known): string {
  const note = { call: bindingOf(call), key, answers: answersToJson(answers), rounds };
  return JSON.stringify(state === undefined ? note : { ...note, state });
}

/**
 * What the same call knew before, if it was answered one of these questions and died before it heard of it: in the same
 * session, with the same method, target and arguments, as long as the question would have waited. Taken away: of several
 * calls one gets it.
 */
export async function takeOver(
  call: Call,
  asked: ReadonlyMap<string, Question>,
  { hub, now }: Asking,
): Promise<Known | undefined> {
  const { session, signal } = call;
  if (session === null) return undefined;
  const binding = bindingOf(call);
  let left: Left | undefined;
  for (let looks = 0; !signal.aborted; looks++) {
    const found = leftOf(await session.questions(), binding, asked, now());
    if (found === undefined) return undefined;
    if (found.id !== left?.id) looks = 0;
    left = found;
    if (looks >= patience) break;
    // A call that lives and is equal to this one takes its answer itself.
    const pause = pauseOf(lookAgain, signal);
    await hub.wait(found.id, pause.signal);
    pause.end();
  }
  return left && (await take(session, left));
}

async function take(session: Session, { id, note, answer }: Left): Promise<Known | undefined> {
  try {
    await session.take(id);
  } catch (error) {
    if (error instanceof SessionError) return undefined;
    throw error;
  }
  const answers = answersFromJson(note.answers).set(note.key, answer);
  return { answers, state: note.state, rounds: note.rounds };
}

/** The newest of the questions that were answered for such a call. */
function leftOf(
  questions: { readonly [id: string]: StoredQuestion },
  binding: string,
  asked: ReadonlyMap<string, Question>,
  now: number,
): Left | undefined {
  let newest: (Left & { readonly at: number }) | undefined;
  for (const [id, stored] of Object.entries(questions)) {
    const { note: text, answer, asked: at, until } = stored;
    if (text === undefined || answer === undefined || 'error' in answer || now >= until) continue;
    const note: Note = JSON.parse(text);
    if (note.call !== binding || !concerns(note, stored, asked)) continue;
    const question = { method: stored.method, params: stored.params } as Question;
    if (newest === undefined || at > newest.at) newest = { id, note, at, answer: Answer.of(question, answer.result) };
  }
  return newest;
}

/** Whether a question that was answered is one of those asked now, or came after one of them. */
function concerns(note: Note, stored: StoredQuestion, asked: ReadonlyMap<string, Question>): boolean {
  const question = asked.get(note.key);
  if (question === undefined) return [...asked.keys()].some((key) => Object.hasOwn(note.answers as object, key));
  const { elicitationId: _, ...params } = stored.params as { [name: string]: Json };
  return question.method === stored.method && canonical(question.params) === canonical(params);
}
