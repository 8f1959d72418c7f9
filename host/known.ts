import { Answer } from './questions.ts';
import type { Json } from './session.ts';

/** What a handler knows when it is run again: the answers so far, and the state it left. */
export interface Known {
  readonly answers: ReadonlyMap<string, Answer>;
  readonly state: Json | undefined;
  /** How often it has asked. */
  readonly rounds: number;
}

export const nothingKnown: Known = { answers: new Map(), state: undefined, rounds: 0 };

/** Answers as they are stored. Errors of the client are none: who asks again may hear something better. */
export function answersToJson(answers: Known['answers']): Json {
  const decided = [...answers].filter(([, { error }]) => error === undefined);
  return Object.fromEntries(decided.map(([key, { action, content }]) => [key, { action, content }]));
}

export function answersFromJson(stored: Json): Map<string, Answer> {
  const answers = Object.entries(stored as unknown as { [key: string]: Answer });
  return new Map(answers.map(([key, { action, content }]) => [key, new Answer(action, content)]));
}
