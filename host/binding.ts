import { createHash } from 'node:crypto';
import type { Call } from './call.ts';
import { isMembers } from './rpc.ts';
import type { Json } from './session.ts';

/** What tells a call from every other one: its method, its target and all arguments, in one spelling. */
export function bindingOf({ method, params }: Pick<Call, 'method' | 'params'>): string {
  const { _meta, inputResponses, requestState, ...target } = params;
  return createHash('sha256')
    .update(canonical({ method, params: target }))
    .digest('hex');
}

/** JSON text that is the same for equal values, whatever the order of their members. */
export function canonical(value: Json | undefined): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (!isMembers(value)) return JSON.stringify(value) ?? 'null';
  const members = Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(',')}}`;
}
