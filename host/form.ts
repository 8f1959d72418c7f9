import type * as z from 'zod';
import type { Revision } from './call.ts';
import { type JsonSchema, jsonSchemaOf } from './schema.ts';
import type { Json } from './session.ts';

/** A form as the elicitation page of the protocol (2025-11-25) allows it: flat, of a few kinds of fields. */
export interface Form {
  readonly type: 'object';
  readonly properties: { readonly [name: string]: JsonSchema };
  readonly required?: readonly string[];
}

interface Choice {
  readonly value: string;
  readonly title: string | undefined;
}

const formats: readonly Json[] = ['email', 'uri', 'date', 'date-time'];
/** The keywords of every kind of field, and those that text and numbers have besides. */
const named = ['type', 'title', 'description', 'default'];
const textKeywords = ['minLength', 'maxLength', 'format'];
const numberKeywords = ['minimum', 'maximum'];

/** The form that asks for `fields`. Throws `TypeError` for a field that no form can ask for. */
export function formOf(fields: z.ZodObject): Form {
  const { properties = {}, required = [], $defs = {} } = jsonSchemaOf('elicit: the fields', fields, 'input');
  const form: [string, JsonSchema][] = [];
  for (const [name, property] of Object.entries(properties as { [name: string]: JsonSchema })) {
    const target = typeof property.$ref === 'string' ? property.$ref.replace('#/$defs/', '') : undefined;
    const resolved = target === undefined ? property : ($defs as { [name: string]: JsonSchema })[target];
    const field = resolved && propertyOf(resolved);
    if (field === undefined) {
      throw new TypeError(`elicit: field "${name}": a form asks for text, a number, a boolean or choices of text`);
    }
    const { bad } = field;
    if (bad !== undefined) throw new TypeError(`elicit: field "${name}": a form cannot say "${bad}"`);
    form.push([name, field.property]);
  }
  const names = required as string[];
  return { type: 'object', properties: Object.fromEntries(form), ...(names.length > 0 && { required: names }) };
}

/**
 * The form in the words of a revision, without what the revision does not know; `undefined` if then a required field would
 * be missing.
 */
export function formFor(form: Form, revision: Revision): Form | undefined {
  if (revision !== '2025-06-18') return form;
  const { required = [] } = form;
  const properties: [string, JsonSchema][] = [];
  for (const [name, property] of Object.entries(form.properties)) {
    // That revision has no multiple choice, titles of choices only in a list beside them, and presets for booleans alone.
    if (property.type === 'array') {
      if (required.includes(name)) return undefined;
      continue;
    }
    const { default: preset, oneOf, ...rest } = property;
    const options = (oneOf ?? []) as readonly { const: string; title: string }[];
    properties.push([
      name,
      {
        ...rest,
        ...(property.type === 'boolean' && preset !== undefined && { default: preset }),
        ...(oneOf !== undefined && {
          enum: options.map((option) => option.const),
          enumNames: options.map(({ title }) => title),
        }),
      },
    ]);
  }
  return { ...form, properties: Object.fromEntries(properties) };
}

type Field = { readonly property: JsonSchema; readonly bad: string | undefined };

/** A field of a form; `undefined` if it is of no kind that a form has. `bad`: what of it no form can say. */
function propertyOf(schema: JsonSchema): Field | undefined {
  const { type, items } = schema;
  const choices = choicesOf(schema);
  if (choices !== undefined) {
    const titles: JsonSchema = Array.isArray(schema.enumNames) ? { enumNames: schema.enumNames } : {};
    const { enum: _, const: __, anyOf: ___, oneOf: ____, enumNames: _____, ...rest } = schema;
    return picked({ ...rest, type: 'string' }, [], { ...said(choices, 'oneOf'), ...titles });
  }
  switch (type) {
    case 'string': {
      const { pattern, ...rest } = schema;
      // What Zod adds to a format as a pattern, the format says.
      if (schema.format === undefined) return picked(schema, textKeywords);
      return formats.includes(schema.format) ? picked(rest, textKeywords) : { property: {}, bad: 'format' };
    }
    case 'number':
      return picked(schema, numberKeywords);
    case 'integer':
      return picked(wholeBounds(schema), numberKeywords);
    case 'boolean':
      return picked(schema, []);
    case 'array': {
      const { items: _, ...rest } = schema;
      const several = choicesOf((items ?? {}) as JsonSchema);
      return several && picked(rest, ['minItems', 'maxItems'], { items: said(several, 'anyOf') });
    }
    default:
      return undefined;
  }
}

function picked(schema: JsonSchema, more: readonly string[], added: JsonSchema = {}): Field {
  // An id names a schema among others; the form holds it in full.
  const { id: _, ...property } = schema;
  const bad = Object.keys(property).find((keyword) => !named.includes(keyword) && !more.includes(keyword));
  return { property: { ...property, ...added }, bad };
}

/** The choices of text that a schema leaves; `undefined` if it is no choice. */
function choicesOf(schema: JsonSchema): Choice[] | undefined {
  const values = valuesOf(schema);
  if (values !== undefined) return values.map((value) => ({ value, title: undefined }));
  const options = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(options)) return undefined;
  const choices: Choice[] = [];
  for (const option of options as JsonSchema[]) {
    const inner = valuesOf(option);
    if (inner === undefined) return undefined;
    const title = inner.length === 1 && typeof option.title === 'string' ? option.title : undefined;
    choices.push(...inner.map((value) => ({ value, title })));
  }
  return choices;
}

function valuesOf(schema: JsonSchema): string[] | undefined {
  const values = schema.const === undefined ? schema.enum : [schema.const];
  return Array.isArray(values) && values.every((value) => typeof value === 'string') ? values : undefined;
}

function said(choices: readonly Choice[], titled: 'oneOf' | 'anyOf'): JsonSchema {
  if (choices.every(({ title }) => title === undefined)) {
    return { ...(titled === 'anyOf' && { type: 'string' }), enum: choices.map(({ value }) => value) };
  }
  return { [titled]: choices.map(({ value, title }) => ({ const: value, title: title ?? value })) };
}

/** Bounds of whole numbers without the ones that every number of JavaScript has, and with open ones closed. */
function wholeBounds({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, ...rest }: JsonSchema): JsonSchema {
  const least = typeof exclusiveMinimum === 'number' ? Math.floor(exclusiveMinimum) + 1 : minimum;
  const most = typeof exclusiveMaximum === 'number' ? Math.ceil(exclusiveMaximum) - 1 : maximum;
  return {
    ...rest,
    ...(least !== undefined && least !== Number.MIN_SAFE_INTEGER && { minimum: least }),
    ...(most !== undefined && most !== Number.MAX_SAFE_INTEGER && { maximum: most }),
  };
}
