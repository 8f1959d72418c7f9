import * as z from 'zod';
import type { Json } from './session.ts';

export type JsonSchema = { readonly [keyword: string]: Json };

/** Whether something is a Zod object, also one of another copy of Zod 4. */
export function isZodObject(value: unknown): value is z.ZodObject {
  const inner = typeof value === 'object' && value !== null && '_zod' in value ? value._zod : undefined;
  return (inner as { def?: { type?: unknown } } | undefined)?.def?.type === 'object';
}

/** JSON Schema 2020-12 of a Zod object. Throws `TypeError`, which begins with `what`, if there is none. */
export function jsonSchemaOf(what: string, schema: unknown, io: 'input' | 'output'): JsonSchema {
  if (!isZodObject(schema)) throw new TypeError(`${what}: expected an object of Zod 4`);
  try {
    // Only what JSON can hold survives; the rest of the library's object is not for the wire.
    return JSON.parse(JSON.stringify(z.toJSONSchema(schema, { io })));
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    throw new TypeError(`${what}: it cannot be said in JSON Schema: ${why}`, { cause: error });
  }
}

/** Where a value does not fit, and why: `path: reason; …`. `whole` names the value itself. */
export function faultsOf(error: z.ZodError, whole: string): string {
  return error.issues.map(({ path, message }) => `${path.map(String).join('.') || whole}: ${message}`).join('; ');
}
