import { RpcError } from './call.ts';
import { codes } from './rpc.ts';
import type { Json } from './session.ts';

type Members = { readonly [name: string]: Json };

/** The most entries of one page of a list. */
export const pageSize = 100;

/**
 * One page of a list, in the order of registration. The cursor says after which entry a page begins, so that it stays good
 * when others are added.
 */
export function page(name: string, entries: ReadonlyMap<string, { readonly shown: Members }>, cursor?: Json): Members {
  if (cursor === undefined && entries.size <= pageSize)
    return { [name]: [...entries.values()].map(({ shown }) => shown) };
  const keys = [...entries.keys()];
  const start = cursor === undefined ? 0 : startOf(name, keys, cursor);
  const shown = keys.slice(start, start + pageSize);
  const last = start + pageSize < keys.length ? shown.at(-1) : undefined;
  return {
    [name]: shown.map((key) => entries.get(key)?.shown ?? {}),
    ...(last !== undefined && { nextCursor: cursorOf(name, last) }),
  };
}

function startOf(name: string, keys: readonly string[], cursor: Json): number {
  const index = typeof cursor === 'string' ? keys.findIndex((key) => cursorOf(name, key) === cursor) : -1;
  if (index < 0) throw new RpcError(codes.params, 'params.cursor: expected one that an earlier page gave');
  return index + 1;
}

function cursorOf(name: string, key: string): string {
  return Buffer.from(`${name} ${key}`).toString('base64url');
}
