import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { serve } from '../../host/library.ts';
import app from '../bench/app.ts';
import { begin, callIn, callModern, Connection, counterOf, inSession, isGood } from '../bench/client.ts';
import { median, table } from '../bench/print.ts';

const { values } = parseArgs({
  options: {
    calls: { type: 'string', default: '200000' },
    /** By how many percent the heap of the last tenth may exceed that of the second. */
    tolerance: { type: 'string', default: '10' },
  },
});
const calls = Number(values.calls);
const tolerance = Number(values.tolerance);
if (!Number.isInteger(calls) || calls < 1000) throw new Error('--calls: expected a whole number of 1000 or more');
if (!(tolerance > 0)) throw new Error('--tolerance: expected a number of percent above 0');

/** How many clients call at a time. */
const width = 16;
/** How often a client calls in a session before it ends it and begins another. */
const sessionLife = 50;
const samples = 100;
/** More than the number of sessions that a server remembers: from here on nothing fills up any more. */
const warmUp = Math.min(5000, calls / 2);

interface Point {
  readonly calls: number;
  readonly heap: number;
  readonly rss: number;
}

/** One client: it goes through everything that a server keeps something for. */
class Client {
  readonly #connection: Connection;
  #session = '';
  #handle = '';
  #bumped = 0;
  #counted = 0;
  #done = 0;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Makes a call. Fails if its answer is not the right one. */
  async step(): Promise<void> {
    const turn = this.#done++ % sessionLife;
    if (turn === 0) await this.#renew();
    else if (turn % 10 === 9) await this.#purge();
    else if (turn % 10 === 8) await this.#count();
    else if (turn % 10 === 7) await this.#expect(callIn(this.#session, 'process', { steps: 3 }));
    else if (turn % 10 === 6) await this.#expect(callIn(this.#session, 'remember', { what: `thing ${turn}` }));
    else if (turn % 10 === 5)
      await this.#expect(inSession(this.#session, { jsonrpc: '2.0', id: 1, method: 'tools/list' }));
    else if (turn % 10 === 4) await this.#refused();
    else await this.#bump();
  }

  /** Makes a handle that is used once and forgotten. */
  async open(): Promise<void> {
    await this.#expect(callModern('count'));
  }

  close(): void {
    this.#connection.close();
  }

  async #expect(request: Buffer): Promise<string> {
    const answered = await this.#connection.call(request);
    if (!isGood(answered)) throw new Error(`a call failed: ${answered.head}\n\n${answered.body}`);
    return answered.body;
  }

  async #renew(): Promise<void> {
    if (this.#session !== '') {
      const { status } = await this.#connection.call(inSession(this.#session, undefined, 'DELETE'));
      if (status !== 204 && status !== 200) throw new Error(`DELETE was answered with ${status}`);
    }
    this.#session = await begin(this.#connection);
    this.#bumped = 0;
  }

  async #bump(): Promise<void> {
    const body = await this.#expect(callIn(this.#session, 'bump'));
    const counted = counterOf({ status: 200, head: '', body });
    if (counted !== ++this.#bumped) throw new Error(`bump: expected ${this.#bumped}, got ${counted}`);
  }

  async #count(): Promise<void> {
    const body = await this.#expect(callModern('count', this.#handle === '' ? {} : { handle: this.#handle }));
    const counted = counterOf({ status: 200, head: '', body });
    if (counted !== ++this.#counted) throw new Error(`count: expected ${this.#counted}, got ${counted}`);
    this.#handle = /"handle":"([^"]+)"/.exec(body)?.[1] ?? '';
  }

  /** The question of 2026-07-28, and its answer. */
  async #purge(): Promise<void> {
    const asked = await this.#expect(callModern('purge', { name: 'cache' }));
    const state: unknown = JSON.parse(asked).result.requestState;
    if (typeof state !== 'string') throw new Error(`purge did not ask: ${asked}`);
    const inputResponses = { confirm: { action: 'accept', content: {} } };
    const body = await this.#expect(callModern('purge', { name: 'cache' }, { requestState: state, inputResponses }));
    if (!body.includes('purged CACHE')) throw new Error(`purge: ${body}`);
  }

  /** A session that there is not. */
  async #refused(): Promise<void> {
    const { status } = await this.#connection.call(callIn(`${this.#session.slice(0, -4)}AAAA`, 'bump'));
    if (status !== 404) throw new Error(`a session that there is not was answered with ${status}`);
  }
}

async function soak(gc: () => void): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'mcp-session-soak-'));
  const server = await serve(app, { port: 0, bucket: `sqlite:${join(folder, 'soak.db')}?sync=normal` });
  const clients = await Promise.all(
    Array.from({ length: width }, async () => new Client(await Connection.open(server.port))),
  );
  const points: Point[] = [];
  try {
    await together(clients, warmUp, (client) => client.open());
    for (let n = 1; n <= samples; n++) {
      await together(clients, calls / samples, (client) => client.step());
      gc();
      const { heapUsed, rss } = process.memoryUsage();
      points.push({ calls: (n * calls) / samples, heap: heapUsed / 2 ** 20, rss: rss / 2 ** 20 });
    }
  } finally {
    for (const client of clients) client.close();
    await server.close();
    await rm(folder, { recursive: true });
  }
  return judge(points);
}

/** Makes `count` calls, each by a client that is free. */
async function together(
  clients: readonly Client[],
  count: number,
  call: (client: Client) => Promise<void>,
): Promise<void> {
  let left = count;
  const work = async (client: Client) => {
    while (left-- > 0) await call(client);
  };
  await Promise.all(clients.map(work));
}

/** Prints the curve; whether the heap stayed as it was. */
function judge(points: readonly Point[]): boolean {
  const tenth = samples / 10;
  const rows: string[][] = [];
  const heaps: number[] = [];
  for (let n = 0; n < samples; n += tenth) {
    const part = points.slice(n, n + tenth);
    const heap = median(part.map((point) => point.heap));
    heaps.push(heap);
    rows.push([`${part.at(-1)?.calls}`, heap.toFixed(2), median(part.map(({ rss }) => rss)).toFixed(1)]);
  }
  table(`after ${warmUp} calls of warm-up, medians of each tenth, after gc`, ['calls', 'heap MiB', 'RSS MiB'], rows);
  const growth = ((heaps.at(-1) ?? 0) / (heaps[1] ?? 0) - 1) * 100;
  const isSteady = growth <= tolerance;
  const verdict = isSteady ? 'steady' : 'GROWS';
  process.stdout.write(`\n${verdict}: the heap changed by ${growth.toFixed(1)} % from the second tenth to the last`);
  process.stdout.write(`, at most ${tolerance} % expected\n`);
  return isSteady;
}

const gc: unknown = Reflect.get(globalThis, 'gc');
if (typeof gc === 'function') {
  process.exitCode = (await soak(() => void gc())) ? 0 : 1;
} else {
  const args = ['--expose-gc', ...process.execArgv, ...process.argv.slice(1)];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  child.on('exit', (status) => {
    process.exitCode = status ?? 1;
  });
}
