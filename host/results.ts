import type { Revision } from './call.ts';
import type { Prompt, PromptResult, ResourceResult, Tool, ToolResult } from './offered.ts';
import { isMembers } from './rpc.ts';
import { faultsOf } from './schema.ts';
import type { Json } from './session.ts';

export type Result = { readonly [name: string]: Json };

/** The tool result that says what went wrong, for the model to read. */
export function failed(text: string): Result {
  return { content: [{ type: 'text', text }], isError: true };
}

/** What a tool's handler returned, as a tool result. */
export function toolResult({ output }: Tool, returned: ToolResult, revision: Revision): Result {
  if (typeof returned === 'string' && output === undefined) return { content: [{ type: 'text', text: returned }] };
  const ready = isReady(returned) ? readyFor(returned, revision) : undefined;
  if (ready?.isError === true || (ready !== undefined && output === undefined)) return ready;
  const value = ready === undefined ? returned : (ready.structuredContent ?? null);
  if (output === undefined) return resultOf(value);
  const parsed = output.safeParse(value);
  if (!parsed.success) return failed(`The tool's result does not fit its schema: ${faultsOf(parsed.error, 'result')}`);
  // Checked, and without what the schema does not know: that is what the client was told to expect.
  return ready === undefined ? resultOf(parsed.data) : { ...ready, structuredContent: parsed.data as Json };
}

function resultOf(value: unknown): Result {
  if (value === undefined) return { content: [] };
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  const content = [{ type: 'text', text }];
  return isMembers(value) ? { content, structuredContent: value } : { content };
}

/** Whether something is a whole tool result: its `content` is a list of blocks that name their type. */
function isReady(returned: unknown): returned is Result & { readonly content: readonly Result[] } {
  if (!isMembers(returned) || !Array.isArray(returned.content)) return false;
  return returned.content.every((block) => isMembers(block) && typeof block.type === 'string');
}

/** A whole result without the blocks that a revision has no words for. */
function readyFor(result: Result & { readonly content: readonly Result[] }, revision: Revision): Result {
  if (revision !== '2025-03-26') return result;
  const content = result.content.map((block): Result => {
    if (block.type !== 'resource_link') return block;
    return { type: 'text', text: [block.title ?? block.name, block.uri].filter(Boolean).join(': ') };
  });
  return { ...result, content };
}

/** What a resource's handler returned, as the result of `resources/read`; `undefined` if there is no such resource. */
export function resourceResult(
  uri: string,
  mimeType: string | undefined,
  returned: ResourceResult | null,
): Result | undefined {
  if (returned === undefined || returned === null) return undefined;
  const contents = (type: string | undefined, content: Result): Result => {
    return { contents: [{ uri, ...(type !== undefined && { mimeType: type }), ...content }] };
  };
  if (typeof returned === 'string') return contents(mimeType, { text: returned });
  if (returned instanceof Uint8Array) {
    const { buffer, byteOffset, byteLength } = returned;
    const blob = Buffer.from(buffer, byteOffset, byteLength).toString('base64');
    return contents(mimeType ?? 'application/octet-stream', { blob });
  }
  if ('contents' in returned && Array.isArray(returned.contents)) return returned as Result;
  return contents(mimeType ?? 'application/json', { text: JSON.stringify(returned) });
}

/** What a prompt's handler returned, as the result of `prompts/get`. */
export function promptResult({ shown }: Prompt, returned: PromptResult): Result {
  const described: Result = shown.description === undefined ? {} : { description: shown.description };
  if (typeof returned === 'string') {
    return { ...described, messages: [{ role: 'user', content: { type: 'text', text: returned } }] };
  }
  if (Array.isArray(returned)) return { ...described, messages: returned };
  if (isMembers(returned) && Array.isArray(returned.messages)) return { ...described, ...(returned as Result) };
  throw new TypeError('the prompt returned neither text nor messages');
}
