import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { median, table } from './print.ts';
import type { Question, Round } from './stored-child.ts';

const few = 1_000;
const rounds = 6;
const operations = 1_000;

class Store {
  readonly count: number;
  readonly open: number[] = [];
  readonly update: number[] = [];
  rss = 0;
  ids: readonly string[] = [];
  readonly child: ChildProcess;

  constructor(count: number, child: ChildProcess) {
    this.count = count;
    this.child = child;
  }

  async ask<T>(question: Question): Promise<T> {
    this.child.send(question);
    const [answer] = await once(this.child, 'message');
    return answer as T;
  }
}

async function start(url: string): Promise<ChildProcess> {
  const child = fork(fileURLToPath(new URL('stored-child.ts', import.meta.url)), [url]);
  await once(child, 'message');
  return child;
}

/** Whether a session costs more where many others are stored: as many are used in each bucket, spread over all of it. */
export async function measureStored(folder: string, many: number): Promise<void> {
  const stores: Store[] = [];
  for (const count of [few, many]) {
    const url = `sqlite:${folder}/stored-${count}.db?sync=normal`;
    const filler = new Store(count, await start(url));
    const ids = await filler.ask<string[]>({ fill: count, spread: few });
    filler.child.disconnect();
    await once(filler.child, 'exit');
    const store = new Store(count, await start(url));
    store.ids = ids;
    stores.push(store);
  }
  try {
    for (let round = 0; round <= rounds; round++) {
      for (const store of round % 2 === 0 ? stores : stores.toReversed()) {
        const measured = await store.ask<Round>({ ids: store.ids, operations });
        store.rss = measured.rss;
        if (round === 0) continue;
        store.open.push(...measured.open);
        store.update.push(...measured.update);
      }
    }
  } finally {
    for (const { child } of stores) child.disconnect();
  }
  const rows = stores.map(({ count, open, update, rss }) => [
    `${count}`,
    median(open).toFixed(1),
    median(update).toFixed(1),
    (rss / 2 ** 20).toFixed(0),
  ]);
  const [one, other] = stores;
  if (one && other) {
    const ratio = (key: 'open' | 'update') => (median(other[key]) / median(one[key])).toFixed(2);
    rows.push(['ratio, at most 1.30', ratio('open'), ratio('update'), (other.rss / one.rss).toFixed(2)]);
  }
  table(
    `sessions stored in SQLite (sync=normal), median us per operation on ${few} of them, spread evenly`,
    ['stored', 'open', 'update', 'RSS MiB'],
    rows,
  );
}
