import { type Call, RpcError } from './call.ts';
import { invoke, type Running } from './invoke.ts';
import type { Registry } from './registry.ts';
import type { Result } from './results.ts';
import { codes } from './rpc.ts';
import { faultsOf } from './schema.ts';

/** The most values of one completion (completion page). */
const mostValues = 100;

/** Suggests values for an argument of a prompt or a variable of a resource template. */
export async function complete(call: Call, registry: Registry, running: Running): Promise<Result> {
  // Loaded where it is needed: most servers complete nothing.
  const { CompleteRequestParamsSchema } = await import('@modelcontextprotocol/core');
  const read = CompleteRequestParamsSchema.safeParse(call.params);
  if (!read.success) throw new RpcError(codes.params, `The params do not fit: ${faultsOf(read.error, 'params')}`);
  const { ref, argument, context } = read.data;
  const referred = ref.type === 'ref/prompt' ? registry.prompts.get(ref.name) : registry.templates.get(ref.uri);
  if (referred === undefined) throw new RpcError(codes.params, `Unknown ${ref.type.slice('ref/'.length)}`);
  const { complete } = referred;
  const completer = Object.hasOwn(complete, argument.name) ? complete[argument.name] : undefined;
  const target = {
    mayAsk: false,
    run: async (exchange: Parameters<NonNullable<typeof completer>>[2]): Promise<Result> => {
      const values = [...((await completer?.(argument.value, context?.arguments ?? {}, exchange)) ?? [])];
      const shown = values.slice(0, mostValues);
      return { completion: { values: shown, total: values.length, hasMore: values.length > shown.length } };
    },
    fail: (text: string): never => {
      throw new RpcError(codes.internal, text);
    },
  };
  return invoke(call, target, running);
}
