import type { Journal } from './journal.ts';
import type { Change } from './transitions.ts';
import type { Kind, Question, Response, Scope, Tracked } from './sessions.ts';
import type { Sessions } from './sessions.ts';
import { SessionError } from './session-error.ts';

export { SessionError, type SessionErrorCode } from './session-error.ts';
export { type Kind, type Scope, Sessions, type SessionsOptions } from './sessions.ts';

/** A value that JSON can hold. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

/** A response to a question: the result, or the error that the client sent instead. */
export type QuestionResponse = { readonly result: Json } | { readonly error: Json };

/** A question as it is stored, and its response once there is one. Times are milliseconds since 1970. */
export interface StoredQuestion {
  readonly method: string;
  readonly params: Json;
  readonly asked: number;
  readonly until: number;
  /** What the asker noted with it. */
  readonly note?: string;
  readonly answer?: QuestionResponse;
}

/**
 * A session that a request reached.
 *
 * Reads answer from the copy that was loaded with the request, and after an own write from what was written. A write
 * resolves when it is durable; it rejects with {@link SessionError} if the session refuses it and with `BucketError` if the
 * bucket fails, and then nothing was written.
 */
export class Session {
  readonly #sessions: Sessions;
  readonly #tracked: Tracked;
  readonly #scope: Scope;
  #texts: Map<string, string | undefined>;
  #notes: Record<string, string>;

  constructor(
    sessions: Sessions,
    tracked: Tracked,
    scope: Scope,
    texts: Map<string, string | undefined>,
    notes: string,
  ) {
    this.#sessions = sessions;
    this.#tracked = tracked;
    this.#scope = scope;
    this.#texts = texts;
    this.#notes = JSON.parse(notes);
  }

  get id(): string {
    return this.#tracked.id;
  }

  get kind(): Kind {
    return this.#tracked.kind;
  }

  /** Resolves when the session was terminated, was deleted or expired, as far as this process hears of it. */
  get ended(): Promise<void> {
    return this.#tracked.ended;
  }

  /** The value under `key`, or `fallback`. A copy: changing it changes nothing. Fails if what is stored is no JSON. */
  get(key: string): Json | undefined;
  get<T extends Json>(key: string, fallback: T): Json | T;
  get(key: string, fallback?: Json): Json | undefined {
    if (!this.#texts.has(key)) return fallback;
    return parseValue(this.#texts.get(key));
  }

  keys(): string[] {
    return [...this.#texts.keys()];
  }

  async set(key: string, value: Json): Promise<void> {
    const text = textOf(value);
    await this.#change([{ tag: 'set', val: [key, { tag: 'text', val: text }] }]);
    this.#texts = new Map(this.#texts).set(key, text);
  }

  async remove(key: string): Promise<void> {
    await this.#change([{ tag: 'remove', val: key }]);
    this.#texts = new Map(this.#texts);
    this.#texts.delete(key);
  }

  /**
   * Replaces the values by what `change` makes of them. It gets copies of the values as they are stored at that moment, and
   * is run again on fresh ones if another write comes first: no write of anybody is lost. Values that are no JSON are not
   * shown to it and stay as they are.
   */
  async update(change: (values: Record<string, Json>) => Record<string, Json>): Promise<void> {
    this.#texts = await this.#sessions.update(this.#tracked, this.#scope, (texts) => {
      const values: Record<string, Json> = {};
      for (const [key, text] of texts) {
        const value = text === undefined ? undefined : tryParse(text);
        if (value !== undefined) define(values, key, value);
      }
      const wanted = change(values);
      // The members of a promise or a map are no values: taken for them, they would wipe the session.
      if (!isPlain(wanted)) {
        throw new SessionError(
          'invalid',
          'update: expected the function to return a plain object, key to value, at once',
        );
      }
      const next = new Map<string, string | undefined>();
      for (const [key, text] of texts) if (text === undefined || tryParse(text) === undefined) next.set(key, text);
      for (const key of Object.keys(wanted)) next.set(key, textOf(wanted[key]));
      return next;
    });
  }

  /** Ends the session; it can still be read. The first reason is kept, later calls change nothing. */
  async terminate(reason?: string): Promise<void> {
    await this.#change([{ tag: 'terminate', val: reason }]);
    await this.#sessions.deleteJournal(this.#tracked);
    this.#sessions.end(this.#tracked, 'session terminated');
  }

  /** What is kept of the session's event streams. */
  get journal(): Journal {
    return this.#sessions.journal(this.#tracked);
  }

  /** Deletes the session with all its values. Does nothing if it is gone already. */
  async delete(): Promise<void> {
    await this.#sessions.delete(this.#tracked, this.#scope);
  }

  /** A note of the host on the session: its revision, its client, … No part of its values. */
  attribute(name: string): string | undefined {
    return Object.hasOwn(this.#notes, name) ? this.#notes[name] : undefined;
  }

  async setAttribute(name: string, text: string | undefined): Promise<void> {
    if (text === undefined) {
      await this.#change([{ tag: 'remove-attribute', val: name }]);
      this.#notes = Object.fromEntries(Object.entries(this.#notes).filter(([other]) => other !== name));
    } else {
      await this.#change([{ tag: 'set-attribute', val: [name, text] }]);
      this.#notes = { ...this.#notes, [name]: text };
    }
  }

  /** Opens a question, to be answered until then (milliseconds since 1970). `note` is kept with it and never sent. */
  async ask(id: string, method: string, params: Json, until: number, note?: string): Promise<void> {
    const question: Question = {
      id,
      method,
      params: JSON.stringify(params),
      until,
      ...(note !== undefined && { note }),
    };
    await this.#change([{ tag: 'ask', val: question }]);
    this.#sessions.tell(this.#tracked, 'info', 'elicitation asked');
  }

  /** Stores the response to an open question. Refused with `no-such-question` or `misfit`. */
  async answer(id: string, response: QuestionResponse): Promise<void> {
    const failed = 'error' in response;
    const content = JSON.stringify(failed ? response.error : response.result);
    const val: Response = { id, content, failed };
    await this.#change([{ tag: 'answer', val }]);
    this.#sessions.tell(this.#tracked, 'info', 'elicitation answered');
  }

  /** Forgets a question and its response. */
  async forget(id: string): Promise<void> {
    await this.#change([{ tag: 'forget', val: id }]);
  }

  /** Takes the answer of a question away. Refused with `no-such-question` if it has none, or somebody else was quicker. */
  async take(id: string): Promise<void> {
    await this.#change([{ tag: 'take', val: id }]);
  }

  /** Forgets a question that nobody answered in time. */
  async expire(id: string): Promise<void> {
    await this.forget(id);
    this.#sessions.tell(this.#tracked, 'info', 'elicitation expired');
  }

  /** The question as the bucket holds it now; `undefined` if it was forgotten or the session has ended. */
  async question(id: string): Promise<StoredQuestion | undefined> {
    const questions = await this.questions();
    return Object.hasOwn(questions, id) ? questions[id] : undefined;
  }

  /** The questions as the bucket holds them now, by id; none if the session has ended. */
  async questions(): Promise<{ readonly [id: string]: StoredQuestion }> {
    const view = await this.#sessions.look(this.#tracked, this.#scope);
    return view === undefined || view.terminated ? {} : JSON.parse(view.questions);
  }

  /** Redeems a request state, once, with the binding it was made with. Refused with `other-call` or `redeemed`. */
  async redeem(binding: string): Promise<void> {
    await this.#change([{ tag: 'redeem', val: binding }]);
  }

  /** Marks the session as in use until the returned function is called: it is renewed and never expires meanwhile. */
  use(): () => void {
    return this.#sessions.use(this.#tracked);
  }

  async #change(changes: Change[]): Promise<void> {
    await this.#sessions.change(this.#tracked, this.#scope, () => changes);
  }
}

function textOf(value: Json | undefined): string {
  const text = JSON.stringify(value);
  if (text === undefined) throw new SessionError('invalid', 'a value: expected something that JSON can hold');
  return text;
}

function tryParse(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function parseValue(text: string | undefined): Json {
  const value = text === undefined ? undefined : tryParse(text);
  if (value === undefined) throw new SessionError('invalid', 'the value is no JSON; it was not written by this host');
  return value;
}

/** A member under any name. A plain assignment would take `__proto__` for something else. */
function define(values: Record<string, Json>, key: string, value: Json): void {
  Object.defineProperty(values, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Whether something is an object without a class of its own, of whatever realm. */
function isPlain(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
