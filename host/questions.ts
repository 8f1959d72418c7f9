import * as z from 'zod';
import type { Json } from './session.ts';

/** A question to the client: a method of the elicitation, sampling or roots pages, and its params. */
export interface Question {
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list';
  readonly params: { readonly [name: string]: Json };
}

/** Asks the user to fill in a form; with no fields, to agree or not. */
export function elicit(message: string, fields: z.ZodObject = z.object({})): Question {
  const { type, properties = {}, required } = z.toJSONSchema(fields, { io: 'input' });
  for (const [name, property] of Object.entries(properties)) {
    const kind = typeof property === 'object' ? property.type : undefined;
    if (!['string', 'number', 'integer', 'boolean', 'array'].includes(String(kind))) {
      throw new TypeError(`elicit: field "${name}": expected text, a number, a boolean or a choice`);
    }
  }
  const requestedSchema = { type, properties, ...(required && required.length > 0 && { required }) } as unknown as Json;
  return { method: 'elicitation/create', params: { message, requestedSchema } };
}

/** Asks the user to visit a page, for what must not pass through the client (revision 2025-11-25 and later). */
export function elicitUrl(message: string, url: string): Question {
  return { method: 'elicitation/create', params: { mode: 'url', message, url } };
}

/** The client capability that a question needs, as `requiredCapabilities` names it. */
export function capabilityOf({ method, params }: Question): { readonly [name: string]: Json } {
  if (method === 'sampling/createMessage') return { sampling: {} };
  if (method === 'roots/list') return { roots: {} };
  return params.mode === 'url' ? { elicitation: { url: {} } } : { elicitation: {} };
}

/** Whether a client that declared these capabilities may be asked. */
export function canAnswer(capabilities: { readonly [name: string]: Json }, question: Question): boolean {
  const [name = ''] = Object.keys(capabilityOf(question));
  const declared = capabilities[name];
  if (typeof declared !== 'object' || declared === null || Array.isArray(declared)) return false;
  if (question.method !== 'elicitation/create') return true;
  if (question.params.mode === 'url') return 'url' in declared;
  // A client that names no mode means forms (elicitation page, 2025-11-25).
  return 'form' in declared || Object.keys(declared).length === 0;
}

/** What became of a question. There is never an `accept` that the client did not send. */
export class Answer {
  readonly action: 'accept' | 'decline' | 'cancel';
  /** What was filled in, checked against the question; empty unless the action is `accept`. */
  readonly content: { readonly [name: string]: Json };

  constructor(action: Answer['action'], content: { readonly [name: string]: Json } = {}) {
    this.action = action;
    this.content = action === 'accept' ? content : {};
  }

  get accepted(): boolean {
    return this.action === 'accept';
  }

  /** The answer that a result is. Whatever is no answer is no decision: `cancel`. */
  static of(result: Json): Answer {
    if (typeof result !== 'object' || result === null || Array.isArray(result)) return new Answer('cancel');
    const { action, content } = result as { action?: Json; content?: Json };
    if (action === 'decline') return new Answer('decline');
    if (action !== 'accept') return new Answer('cancel');
    const isMap = typeof content === 'object' && content !== null && !Array.isArray(content);
    return new Answer('accept', isMap ? (content as { [name: string]: Json }) : {});
  }
}

/** Thrown by a handler that cannot go on without answers. It is run again, from its first line, when they are there. */
export class NeedInput extends Error {
  readonly questions: Readonly<Record<string, Question>>;
  readonly state: Json | undefined;

  constructor(questions: Readonly<Record<string, Question>>, { state }: { readonly state?: Json } = {}) {
    super('the handler needs an answer of the client');
    this.name = 'NeedInput';
    this.questions = questions;
    this.state = state;
  }
}
