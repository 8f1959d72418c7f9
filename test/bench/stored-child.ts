import { randomBytes } from 'node:crypto';
import { openBucket } from '../../host/bucket/open.ts';
import { Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';

/** What a round took, in microseconds per operation, and the resident memory afterwards. */
export interface Round {
  readonly open: number[];
  readonly update: number[];
  readonly rss: number;
}

export type Question =
  | { readonly fill: number; readonly spread: number }
  | { readonly ids: readonly string[]; readonly operations: number };

const [, , url = ''] = process.argv;
const transitions = await loadTransitions();
const bucket = openBucket(url);
const hour = 3_600_000;
const log = () => undefined;
const sessions = new Sessions({ bucket, transitions, log, sessionTtl: hour, stateTtl: hour });
const scope = { namespace: '', owner: undefined };

/** Stores sessions, and gives back the ids of some, evenly among them. */
async function fill(count: number, spread: number): Promise<string[]> {
  const ids: string[] = [];
  const attributes: [string, string][] = [['revision', '2025-11-25']];
  const beginning = { kind: 'session', namespace: '', ttl: 100 * hour, attributes, binding: '' } as const;
  for (let n = 0; n < count; n++) {
    const { id, key, content } = transitions.create(beginning, Date.now(), randomBytes(24));
    await bucket.swap(key, undefined, Buffer.from(content));
    if (n % Math.max(1, Math.floor(count / spread)) === 0) ids.push(id);
  }
  await bucket.settled();
  return ids;
}

async function operate(ids: readonly string[], operations: number): Promise<Round> {
  const open: number[] = [];
  const update: number[] = [];
  for (let n = 0; n < operations; n++) {
    const id = ids[Math.floor(Math.random() * ids.length)] ?? '';
    const began = performance.now();
    const session = await sessions.open('session', scope, id);
    const opened = performance.now();
    if (session === undefined) throw new Error('a stored session is gone');
    await session.update((values) => ({ ...values, n: Number(values.n ?? 0) + 1 }));
    update.push((performance.now() - opened) * 1000);
    open.push((opened - began) * 1000);
  }
  return { open, update, rss: process.memoryUsage.rss() };
}

process.on('message', async (question: Question) => {
  process.send?.(
    'fill' in question ? await fill(question.fill, question.spread) : await operate(question.ids, question.operations),
  );
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
