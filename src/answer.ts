import * as z from 'zod/mini';

/**
 * The shapes of questions and answers. Made when they are needed: parsers that are made while the component is built would
 * be part of its image, a megabyte of it.
 */
function shapes() {
  const text = z.string();
  const option = z.object({ const: text, title: z.optional(text) });

  /** One property of a form, as the elicitation page of the protocol (2025-11-25) allows it. */
  const property = z.discriminatedUnion('type', [
    z.object({
      type: z.literal('string'),
      minLength: z.optional(z.number()),
      maxLength: z.optional(z.number()),
      format: z.optional(z.enum(['email', 'uri', 'date', 'date-time'])),
      enum: z.optional(z.array(text)),
      oneOf: z.optional(z.array(option)),
    }),
    z.object({ type: z.literal('number'), minimum: z.optional(z.number()), maximum: z.optional(z.number()) }),
    z.object({ type: z.literal('integer'), minimum: z.optional(z.number()), maximum: z.optional(z.number()) }),
    z.object({ type: z.literal('boolean') }),
    z.object({
      type: z.literal('array'),
      items: z.object({ enum: z.optional(z.array(text)), anyOf: z.optional(z.array(option)) }),
      minItems: z.optional(z.number()),
      maxItems: z.optional(z.number()),
    }),
  ]);

  const form = z.object({
    message: text,
    mode: z.optional(z.literal('form')),
    requestedSchema: z.object({
      type: z.literal('object'),
      properties: z.record(text, property),
      required: z.optional(z.array(text)),
    }),
  });

  const page = z.object({ message: text, mode: z.literal('url'), url: text });
  const elicitation = z.union([page, form]);

  const action = z.enum(['accept', 'decline', 'cancel']);
  const block = z.looseObject({ type: text });
  const sampled = z.looseObject({
    role: z.enum(['user', 'assistant']),
    content: z.union([block, z.array(block)]),
    model: text,
    stopReason: z.optional(text),
  });
  const roots = z.looseObject({ roots: z.array(z.looseObject({ uri: text, name: z.optional(text) })) });
  return { elicitation, form, action, sampled, roots };
}

type Form = z.infer<ReturnType<typeof shapes>['form']>;
type Property = Form['requestedSchema']['properties'][string];

/** What is wrong with a question, or `undefined`. */
export function questionFault(method: string, params: unknown): string | undefined {
  if (method === 'elicitation/create') return fault(shapes().elicitation, params);
  if (method === 'sampling/createMessage') return fault(z.looseObject({ maxTokens: z.number() }), params);
  if (method === 'roots/list') return undefined;
  return 'the method is none of elicitation/create, sampling/createMessage, roots/list';
}

/** What is wrong with the result of a question, or `undefined`. Only an accepted form must fit the form. */
export function answerFault(method: string, params: unknown, result: unknown): string | undefined {
  const { action, form, roots, sampled } = shapes();
  if (method === 'sampling/createMessage') return fault(sampled, result);
  if (method === 'roots/list') return fault(roots, result);
  const wrong = fault(z.looseObject({ action }), result);
  if (wrong !== undefined) return wrong;
  const { action: done, content } = result as { action: string; content?: unknown };
  const asked = z.safeParse(form, params);
  if (done !== 'accept' || !asked.success) return undefined;
  return fault(contentOf(asked.data.requestedSchema), content ?? {});
}

/** The parser of an accepted form's content. */
function contentOf({ properties, required = [] }: Form['requestedSchema']) {
  const shape: Record<string, z.ZodMiniType> = {};
  for (const [name, of] of Object.entries(properties)) {
    const parser = parserOf(of);
    shape[name] = required.includes(name) ? parser : z.optional(parser);
  }
  return z.looseObject(shape);
}

function parserOf(of: Property): z.ZodMiniType {
  if (of.type === 'boolean') return z.boolean();
  if (of.type === 'array') {
    const values = of.items.enum ?? of.items.anyOf?.map((choice) => choice.const) ?? [];
    const { minItems = 0, maxItems = Number.MAX_SAFE_INTEGER } = of;
    return z.array(z.enum(values)).check(z.minLength(minItems), z.maxLength(maxItems));
  }
  if (of.type === 'string') {
    const values = of.enum ?? of.oneOf?.map((choice) => choice.const);
    if (values !== undefined) return z.enum(values);
    const { minLength = 0, maxLength = Number.MAX_SAFE_INTEGER } = of;
    // JSON Schema counts characters, JavaScript counts UTF-16 units.
    const sized = z.string().check(
      z.refine((given) => [...given].length >= minLength, `fewer than ${minLength} characters`),
      z.refine((given) => [...given].length <= maxLength, `more than ${maxLength} characters`),
    );
    if (of.format === 'email') return sized.check(z.email());
    if (of.format === 'uri') return sized.check(z.regex(/^[A-Za-z][A-Za-z0-9+.-]*:\S*$/, 'no URI'));
    if (of.format === 'date') return sized.check(z.iso.date());
    if (of.format === 'date-time') return sized.check(z.iso.datetime({ offset: true }));
    return sized;
  }
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = of;
  const number = of.type === 'integer' ? z.int() : z.number();
  return number.check(z.gte(minimum), z.lte(maximum));
}

/** Where a value does not fit, without the value. */
function fault(parser: z.ZodMiniType, value: unknown): string | undefined {
  const parsed = z.safeParse(parser, value);
  if (parsed.success) return undefined;
  const [issue] = parsed.error.issues;
  const where = issue?.path.join('.') || 'the whole';
  return `${where}: ${issue?.code === 'invalid_type' ? `expected ${issue.expected}` : (issue?.code ?? 'does not fit')}`;
}
