import type { CreateMessageRequestParamsSchema } from '@modelcontextprotocol/core';
import * as z from 'zod';
import type { Revision } from './call.ts';
import { type Form, formFor, formOf } from './form.ts';
import type { Json } from './session.ts';

type Members = { readonly [name: string]: Json };

/** A question to the client: a method of the elicitation, sampling or roots pages, and its params. */
export interface Question {
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list';
  readonly params: Members;
}

/** What a model is asked: messages, `maxTokens` and preferences (sampling page, 2025-11-25). */
export type SampleParams = Omit<z.input<typeof CreateMessageRequestParamsSchema>, '_meta' | 'task'>;

/**
 * Asks the user to fill in a form; with no fields, to agree or not.
 *
 * A form is flat: text (with lengths and the formats email, uri, date, date-time), numbers, booleans, one or several choices
 * of text. Titles, descriptions and defaults are shown. Checks that JSON Schema cannot say are not made. Throws `TypeError`
 * for a field that no form can ask for.
 */
export function elicit(message: string, fields: z.ZodObject = z.object({})): Question {
  const requestedSchema = formOf(fields) as unknown as Json;
  return { method: 'elicitation/create', params: { message: wordsOf('elicit', message), requestedSchema } };
}

/** Asks the user to visit a page, for what must not pass through the client (revision 2025-11-25 and later). */
export function elicitUrl(message: string, url: string): Question {
  const { protocol } = URL.canParse(url) ? new URL(url) : { protocol: '' };
  if (protocol !== 'https:' && protocol !== 'http:') throw new TypeError('elicitUrl: expected an absolute http(s) URL');
  return { method: 'elicitation/create', params: { mode: 'url', message: wordsOf('elicitUrl', message), url } };
}

/** Asks the client's model. The content of the answer is the result: `role`, `content`, `model`. */
export function sample(params: SampleParams): Question {
  const { messages, maxTokens } = params;
  if (!Array.isArray(messages) || messages.length === 0) throw new TypeError('sample: expected messages');
  if (!Number.isSafeInteger(maxTokens) || maxTokens < 1) throw new TypeError('sample: expected maxTokens of 1 or more');
  return { method: 'sampling/createMessage', params: JSON.parse(JSON.stringify(params)) };
}

/** Asks for the client's roots. The content of the answer is the result: `roots`. */
export function listRoots(): Question {
  return { method: 'roots/list', params: {} };
}

/** The client capability that a question needs, as `requiredCapabilities` names it. */
export function capabilityOf({ method, params }: Question): { readonly [name: string]: Members } {
  if (method === 'roots/list') return { roots: {} };
  if (method === 'sampling/createMessage') return { sampling: params.tools === undefined ? {} : { tools: {} } };
  return { elicitation: params.mode === 'url' ? { url: {} } : { form: {} } };
}

/** Whether a client that declared these capabilities may be asked. */
export function canAnswer(capabilities: Members, question: Question): boolean {
  for (const [name, parts] of Object.entries(capabilityOf(question))) {
    const declared = Object.hasOwn(capabilities, name) ? capabilities[name] : undefined;
    if (typeof declared !== 'object' || declared === null || Array.isArray(declared)) return false;
    for (const part of Object.keys(parts)) {
      // A client that names no mode means forms (elicitation page, 2025-11-25).
      const isForm = part === 'form' && !Object.hasOwn(declared, 'url');
      if (!isForm && !Object.hasOwn(declared, part)) return false;
    }
  }
  return true;
}

/** A question in the words of a revision; `undefined` if that revision has none for it. */
export function phrased({ method, params }: Question, revision: Revision): Question | undefined {
  if (method !== 'elicitation/create') return { method, params };
  if (revision === '2025-03-26') return undefined;
  if (params.mode === 'url') return revision === '2025-06-18' ? undefined : { method, params };
  const form = formFor(params.requestedSchema as unknown as Form, revision);
  if (form === undefined) return undefined;
  const mode: Members = revision === '2025-06-18' ? {} : { mode: 'form' };
  return { method, params: { ...mode, ...params, requestedSchema: form as unknown as Json } };
}

/** What became of a question. There is never an `accept` that the client did not send. */
export class Answer {
  readonly action: 'accept' | 'decline' | 'cancel';
  /** What was filled in, checked against the question; empty unless the action is `accept`. */
  readonly content: Members;
  /** The error that the client answered with. The action is `cancel` then: nothing was decided. */
  readonly error: Json | undefined;

  constructor(action: Answer['action'], content: Members = {}, error?: Json) {
    this.action = action;
    this.content = action === 'accept' ? content : {};
    this.error = error;
  }

  get accepted(): boolean {
    return this.action === 'accept';
  }

  /** The answer that a result is. Whatever is no answer to the question is no decision: `cancel`. */
  static of({ method, params }: Question, result: Json): Answer {
    if (!isMembers(result)) return new Answer('cancel');
    if (method !== 'elicitation/create') return new Answer('accept', result);
    if (result.action === 'decline') return new Answer('decline');
    if (result.action !== 'accept') return new Answer('cancel');
    const { properties = {} } = (params.requestedSchema ?? {}) as Partial<Form>;
    const content = isMembers(result.content) ? result.content : {};
    // Only what was asked for.
    const filled = Object.entries(content).filter(([name]) => Object.hasOwn(properties, name));
    return new Answer('accept', Object.fromEntries(filled));
  }
}

const needs = Symbol.for('mcp-session.need-input');

/**
 * Thrown by a handler that cannot go on without answers. It is run again, from its first line, when they are there: the
 * answers under the keys of their questions, and `state`, which JSON must be able to hold, as it was left. Without a `state`
 * the one that was left before stays.
 */
export class NeedInput extends Error {
  readonly [needs] = true;
  readonly questions: Readonly<Record<string, Question>>;
  readonly state: Json | undefined;

  constructor(questions: Readonly<Record<string, Question>>, { state }: { readonly state?: Json | undefined } = {}) {
    super('the handler needs an answer of the client');
    this.name = 'NeedInput';
    if (Object.keys(questions).length === 0) throw new TypeError('NeedInput: expected at least one question');
    const text = state === undefined ? undefined : JSON.stringify(state);
    this.questions = questions;
    // A copy, as it would be after a way through the bucket: the handler meets the same on every revision.
    this.state = text === undefined ? undefined : JSON.parse(text);
  }

  /** Whether a thrown value is one, also one of another copy of this package. */
  static is(thrown: unknown): thrown is NeedInput {
    return typeof thrown === 'object' && thrown !== null && needs in thrown;
  }
}

function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function wordsOf(what: string, message: unknown): string {
  if (typeof message !== 'string' || message === '') throw new TypeError(`${what}: expected a message for the user`);
  return message;
}
