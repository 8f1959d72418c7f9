import type {
  ContentValue,
  ElicitRequest,
  ElicitResult,
  Field,
  FormRequest,
  Message,
  SamplingRequest,
} from 'mcp:session/elicitation@0.1.0';
import { fromBase64Url, toBase64Url } from './bytes.ts';
import { own, put, refuse, type StoredQuestion } from './record.ts';

/** A question as JSON-RPC method and params (elicitation, sampling and roots pages, 2025-11-25). */
export function questionOf(request: ElicitRequest): { method: string; params: object } {
  switch (request.tag) {
    case 'form':
      return { method: 'elicitation/create', params: formParams(request.val) };
    case 'url':
      return { method: 'elicitation/create', params: { mode: 'url', ...request.val } };
    case 'sampling':
      return { method: 'sampling/createMessage', params: samplingParams(request.val) };
    case 'roots':
      return { method: 'roots/list', params: {} };
  }
}

// The mode is left out: every client takes a question without one for a form, and those of 2025-06-18 know no modes.
function formParams({ message, fields }: FormRequest): object {
  const properties: Record<string, object> = {};
  for (const field of fields) {
    if (Object.hasOwn(properties, field.name))
      refuse({ tag: 'invalid', val: 'a form: expected fields of different names' });
    put(properties, field.name, propertyOf(field));
  }
  const required = fields.filter((field) => field.required).map((field) => field.name);
  return { message, requestedSchema: { type: 'object', properties, ...(required.length > 0 && { required }) } };
}

function propertyOf({ title, description, kind }: Field): object {
  const named = given({ title, description });
  switch (kind.tag) {
    case 'text': {
      const { minLength, maxLength, format, default: preset } = kind.val;
      return { type: 'string', ...named, ...given({ minLength, maxLength, format, default: preset }) };
    }
    case 'number':
      return { type: 'number', ...named, ...given({ ...kind.val }) };
    case 'integer': {
      const { minimum, maximum, default: preset } = kind.val;
      return {
        type: 'integer',
        ...named,
        ...given({ minimum: numberOf(minimum), maximum: numberOf(maximum), default: numberOf(preset) }),
      };
    }
    case 'boolean':
      return { type: 'boolean', ...named, ...given({ default: kind.val.default }) };
    case 'single-select':
      return {
        type: 'string',
        ...named,
        ...choicesOf(kind.val.choices, 'oneOf'),
        ...given({ default: kind.val.default }),
      };
    case 'multi-select': {
      const { choices, minItems, maxItems, default: preset } = kind.val;
      const items = choicesOf(choices, 'anyOf');
      return { type: 'array', ...named, items, ...given({ minItems, maxItems, default: preset }) };
    }
  }
}

function choicesOf(choices: { value: string; title?: string | undefined }[], titled: 'oneOf' | 'anyOf'): object {
  if (choices.length === 0) refuse({ tag: 'invalid', val: 'a field: expected at least one choice' });
  const values = choices.map((choice) => choice.value);
  const isPlain = choices.every((choice) => choice.title == null);
  if (isPlain) return { ...(titled === 'anyOf' && { type: 'string' }), enum: values };
  return { [titled]: choices.map(({ value, title }) => ({ const: value, title: title ?? value })) };
}

function samplingParams({ messages, systemPrompt, maxTokens, temperature, stopSequences }: SamplingRequest): object {
  return {
    messages: messages.map(({ speaker, content }) => ({ role: speaker, content: blockOf(content) })),
    maxTokens,
    ...given({ systemPrompt, temperature }),
    ...(stopSequences.length > 0 && { stopSequences }),
  };
}

function blockOf(content: Message['content']): object {
  if (content.tag === 'text') return { type: 'text', text: content.val };
  return { type: content.tag, data: toBase64(content.val.bytes), mimeType: content.val.mediaType };
}

/** The members that are there. An absent option is `undefined` in one engine and `null` in the other. */
function given(members: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value != null));
}

function numberOf(value: bigint | undefined): number | undefined {
  return value == null ? undefined : Number(value);
}

function toBase64(bytes: Uint8Array): string {
  const text = toBase64Url(bytes).replaceAll('-', '+').replaceAll('_', '/');
  return text.padEnd(Math.ceil(text.length / 4) * 4, '=');
}

function fromBase64(text: string): Uint8Array {
  return fromBase64Url(text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''));
}

/** A stored answer, typed. The answer was checked before it was stored, so its shape is known. */
export function resultOf(question: StoredQuestion): ElicitResult | undefined {
  const { answer } = question;
  if (answer === undefined) return undefined;
  if ('error' in answer) return { tag: 'failed', val: clientError(answer.error) };
  const result = answer.result as Record<string, unknown>;
  if (question.method === 'roots/list') return { tag: 'roots', val: rootsOf(result) };
  if (question.method === 'sampling/createMessage') return samplingResult(result);
  const action = result.action as 'accept' | 'decline' | 'cancel';
  const params = question.params as {
    mode?: string;
    requestedSchema?: { properties: Record<string, { type: string }> };
  };
  if (params.mode === 'url') return { tag: 'url', val: action };
  const content: [string, ContentValue][] = [];
  if (action === 'accept') {
    // Only what was asked: the form decides which type a value has.
    const filled = (result.content ?? {}) as Record<string, unknown>;
    for (const [name, { type }] of Object.entries(params.requestedSchema?.properties ?? {})) {
      const value = own(filled, name);
      if (value !== undefined) content.push([name, valueOf(type, value)]);
    }
  }
  return { tag: 'form', val: { action, content } };
}

function valueOf(type: string, value: unknown): ContentValue {
  if (type === 'integer') return { tag: 'integer', val: BigInt(value as number) };
  if (type === 'number') return { tag: 'number', val: value as number };
  if (type === 'boolean') return { tag: 'boolean', val: value as boolean };
  if (type === 'array') return { tag: 'choices', val: value as string[] };
  return { tag: 'text', val: value as string };
}

function clientError(error: unknown): { code: number; message: string } {
  const { code, message } = (typeof error === 'object' && error !== null ? error : {}) as Record<string, unknown>;
  return {
    code: typeof code === 'number' ? code : 0,
    message: typeof message === 'string' ? message : 'the client sent an error without a message',
  };
}

function rootsOf(result: Record<string, unknown>): { uri: string; name?: string }[] {
  return (result.roots as { uri: string; name?: string }[]).map(({ uri, name }) =>
    name === undefined ? { uri } : { uri, name },
  );
}

function samplingResult(result: Record<string, unknown>): ElicitResult {
  const blocks = [result.content].flat() as { type: string; text?: string; data?: string; mimeType?: string }[];
  const [block = { type: 'text', text: '' }] = blocks;
  const speaker = result.role as 'user' | 'assistant';
  const model = result.model as string;
  const stopReason = result.stopReason as string | undefined;
  const end = stopReason === undefined ? {} : { stopReason };
  if (block.type === 'text') {
    return {
      tag: 'sampling',
      val: { message: { speaker, content: { tag: 'text', val: block.text ?? '' } }, model, ...end },
    };
  }
  if (block.type === 'image' || block.type === 'audio') {
    const media = { bytes: fromBase64(block.data ?? ''), mediaType: block.mimeType ?? '' };
    return { tag: 'sampling', val: { message: { speaker, content: { tag: block.type, val: media } }, model, ...end } };
  }
  return { tag: 'failed', val: { code: 0, message: 'the model answered with neither text, image nor sound' } };
}
