import { formatDuration } from './duration.ts';
import { Refusal, type View } from './transitions.ts';
import { harmless, quote } from './write-log.ts';

/** What a record says, or why it cannot be read. */
export type Found = View | Refusal;

/** What the administrator is shown of a session. Times are ISO 8601, the TTL is in milliseconds. */
export type Shown =
  | { readonly id: string; readonly state: 'unreadable'; readonly reason: string }
  | {
      readonly id: string;
      readonly state: 'live' | 'terminated' | 'expired';
      readonly created: string;
      readonly used: string;
      readonly ttl: number;
      readonly terminated: boolean;
      readonly owned: boolean;
      /** How many there are, and their bytes altogether. */
      readonly values: number;
      readonly bytes: number;
    };

/** A value as the record holds it. */
export interface StoredValue {
  readonly key: string;
  readonly bytes: number;
  /** Where it is kept, if apart from the record. */
  readonly at: string | undefined;
  /** `undefined` until it is fetched, if it is kept apart. */
  content: Uint8Array | undefined;
}

/** The values of a session, in the order in which it keeps them. */
export function storedValues({ values }: View): StoredValue[] {
  const held: Record<string, string | { base64: string } | { at: string; size: number }> = JSON.parse(values);
  return Object.entries(held).map(([key, value]) => {
    if (typeof value === 'object' && 'at' in value) {
      return { key, bytes: value.size, at: value.at, content: undefined };
    }
    const content = typeof value === 'string' ? Buffer.from(value) : Buffer.from(value.base64, 'base64url');
    return { key, bytes: content.length, at: undefined, content };
  });
}

export function describe(id: string, found: Found, now: number): Shown {
  if (found instanceof Refusal) return { id, state: 'unreadable', reason: found.val ?? found.tag };
  const { created, renewed, ttl, terminated, owner } = found;
  const stored = storedValues(found);
  const state = now >= renewed + ttl ? 'expired' : terminated ? 'terminated' : 'live';
  return {
    id,
    state,
    created: new Date(created).toISOString(),
    used: new Date(renewed).toISOString(),
    ttl,
    terminated,
    owned: owner != null,
    values: stored.length,
    bytes: stored.reduce((sum, { bytes }) => sum + bytes, 0),
  };
}

/** One line. */
export function format(shown: Shown, json: boolean): string {
  if (json) return `${harmless(JSON.stringify(shown))}\n`;
  if (shown.state === 'unreadable') return `${shown.id}  unreadable  ${quote(shown.reason)}\n`;
  const { id, state, created, used, ttl, terminated, owned, values, bytes } = shown;
  const also = state === 'expired' && terminated ? ' (terminated)' : '';
  const times = `created ${created}  used ${used}  ttl ${formatDuration(ttl)}`;
  return `${id}  ${state}${also}  ${times}  owner ${owned ? 'yes' : 'no'}  values ${values}  bytes ${bytes}\n`;
}

/** Everything about one session; with `values`, the content of its values too. */
export function detail(
  shown: Shown,
  view: View,
  stored: readonly StoredValue[],
  { json, values }: { readonly json: boolean; readonly values: boolean },
): string {
  const reason = view.reason ?? undefined;
  const entries = stored.map(({ key, bytes, content }) => ({ key, bytes, ...(values && contentOf(content)) }));
  const questions = Object.keys(JSON.parse(view.questions)).length;
  if (json) return `${harmless(JSON.stringify({ ...shown, reason, questions, entries }))}\n`;
  if (shown.state === 'unreadable') return format(shown, false);
  const lines = [
    `id         ${shown.id}`,
    `state      ${shown.state}`,
    `created    ${shown.created}`,
    `last use   ${shown.used}`,
    `ttl        ${formatDuration(shown.ttl)}`,
    `terminated ${shown.terminated ? 'yes' : 'no'}${reason === undefined ? '' : `: ${quote(reason)}`}`,
    `owner      ${shown.owned ? 'yes' : 'no'}`,
    `questions  ${questions}`,
    `values     ${shown.values}, ${shown.bytes} bytes`,
    ...entries.map((entry) => {
      const content = entry.text === undefined ? entry.base64 : quote(entry.text);
      return `  ${quote(entry.key)}  ${entry.bytes} bytes${content === undefined ? '' : `  ${content}`}`;
    }),
  ];
  return `${lines.join('\n')}\n`;
}

function contentOf(content: Uint8Array | undefined): { readonly text?: string; readonly base64?: string } {
  if (content === undefined) return {};
  const bytes = Buffer.from(content);
  const text = bytes.toString();
  return Buffer.from(text).equals(bytes) ? { text } : { base64: bytes.toString('base64') };
}
