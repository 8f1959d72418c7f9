import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { begin, callIn, callModern, Connection, counterOf, isGood } from './client.ts';
import { table } from './print.ts';

interface Shape {
  readonly name: string;
  readonly connections: number;
  readonly sessions: number;
  /** Whether the calls are of 2026-07-28 and name handles. */
  readonly modern?: boolean;
}

const shapes: readonly Shape[] = [
  { name: '1 connection, 1 session', connections: 1, sessions: 1 },
  { name: '16 connections, 16 sessions', connections: 16, sessions: 16 },
  { name: '16 connections, 1 session', connections: 16, sessions: 1 },
  { name: '16 connections, 64 sessions', connections: 16, sessions: 64 },
  { name: '16 connections, 16 handles (2026-07-28)', connections: 16, sessions: 16, modern: true },
];

const rounds = 4;

/** What was measured of one server under one shape of load, over all rounds. */
interface Sum {
  calls: number;
  failed: number;
  seconds: number;
  micros: number;
  /** Calls that were answered well and that the counter does not know of. */
  lost: number;
}

class Measured {
  readonly name: string;
  readonly #child: ChildProcess;
  readonly #port: number;
  readonly sums = new Map<Shape, Sum>();
  readonly #requests = new Map<Shape, { bytes: Buffer; good: number }[]>();

  private constructor(name: string, child: ChildProcess, port: number) {
    this.name = name;
    this.#child = child;
    this.#port = port;
  }

  static async start(name: string, kind: string): Promise<Measured> {
    const child = fork(fileURLToPath(new URL('server.ts', import.meta.url)), [kind]);
    const [{ port }] = (await once(child, 'message')) as [{ port: number }];
    return new Measured(name, child, port);
  }

  async run(shape: Shape, seconds: number, counts: boolean): Promise<void> {
    const requests = await this.#prepare(shape);
    const connections = await Promise.all(Array.from({ length: shape.connections }, () => Connection.open(this.#port)));
    const sum = this.sums.get(shape) ?? { calls: 0, failed: 0, seconds: 0, micros: 0, lost: 0 };
    const before = await this.#usage();
    const began = performance.now();
    const until = began + seconds * 1000;
    let calls = 0;
    let failed = 0;
    const work = async (connection: Connection, first: number) => {
      for (let next = first; performance.now() < until; next += shape.connections) {
        const request = requests[next % requests.length];
        if (request === undefined) throw new Error('no request');
        const isDone = await connection.call(request.bytes).then(isGood, () => undefined);
        calls++;
        if (isDone) request.good++;
        else failed++;
        // Without its connection it cannot go on.
        if (isDone === undefined) return;
      }
    };
    await Promise.all(connections.map(work));
    const spent = (performance.now() - began) / 1000;
    const micros = (await this.#usage()) - before;
    for (const connection of connections) connection.close();
    sum.failed += failed;
    if (counts) {
      sum.calls += calls;
      sum.seconds += spent;
      sum.micros += micros;
    }
    this.sums.set(shape, sum);
  }

  /** Asks each counter once more, and compares with how often it was raised. */
  async verify(): Promise<void> {
    const connection = await Connection.open(this.#port);
    for (const [shape, requests] of this.#requests) {
      for (const { bytes, good } of requests) {
        const sum = this.sums.get(shape);
        if (sum) sum.lost += good + 1 - counterOf(await connection.call(bytes));
      }
    }
    connection.close();
  }

  stop(): void {
    this.#child.disconnect();
  }

  async #prepare(shape: Shape): Promise<{ bytes: Buffer; good: number }[]> {
    const ready = this.#requests.get(shape);
    if (ready) return ready;
    const connection = await Connection.open(this.#port);
    const requests: { bytes: Buffer; good: number }[] = [];
    for (let n = 0; n < shape.sessions; n++) {
      if (shape.modern) {
        const { body } = await connection.call(callModern('count'));
        const handle = /"handle":"([^"]+)"/.exec(body)?.[1];
        if (handle === undefined && this.name !== 'bare node:http') throw new Error(`no handle: ${body}`);
        requests.push({ bytes: callModern('count', { handle: handle ?? 'echo' }), good: 1 });
      } else {
        requests.push({ bytes: callIn(await begin(connection), 'bump'), good: 0 });
      }
    }
    connection.close();
    this.#requests.set(shape, requests);
    return requests;
  }

  async #usage(): Promise<number> {
    this.#child.send('usage');
    const [{ user, system }] = (await once(this.#child, 'message')) as [NodeJS.CpuUsage];
    return user + system;
  }
}

/** `tools/call` over HTTP: ours beside a bare echo and the official SDK, in turns. */
export async function measureCalls(seconds: number, folder: string): Promise<void> {
  const bare = await Measured.start('bare node:http', 'bare');
  const sse = await Measured.start('official SDK (SSE, its default)', 'sdk-sse');
  const json = await Measured.start('official SDK (JSON answers)', 'sdk-json');
  const memory = await Measured.start('ours, memory:', 'memory:');
  const sqlite = await Measured.start('ours, sqlite: full', `sqlite:${folder}/calls.db`);
  const all = [bare, sse, json, memory, sqlite];
  try {
    // Compilers need more calls than one shape of load makes.
    for (const one of all) if (shapes[1]) await one.run(shapes[1], seconds / 2, false);
    for (const shape of shapes) {
      const taking = shape.modern ? [bare, memory, sqlite] : all;
      for (const one of taking) await one.run(shape, Math.min(1, seconds / 2), false);
      for (let round = 0; round < rounds; round++) {
        for (let n = 0; n < taking.length; n++) {
          await taking[(n + round) % taking.length]?.run(shape, seconds / rounds, true);
        }
      }
    }
    for (const one of all) if (one !== bare) await one.verify();
  } finally {
    for (const one of all) one.stop();
  }
  for (const shape of shapes) {
    const rows = all.flatMap((one) => {
      const sum = one.sums.get(shape);
      if (sum === undefined) return [];
      const { calls, failed, lost } = sum;
      return [[one.name, rate(sum).toFixed(0), cost(sum).toFixed(1), `${calls}`, `${failed}`, `${lost}`]];
    });
    table(`tools/call, ${shape.name}`, ['server', 'calls/s', 'CPU us/call', 'calls', 'failed', 'lost'], rows);
  }
  const ratios: string[][] = [];
  const compare = (shape: Shape | undefined, ours: Measured, peer: Measured, budget: string) => {
    const a = shape && ours.sums.get(shape);
    const b = shape && peer.sums.get(shape);
    if (!shape || !a || !b) return;
    const byTime = (cost(b) / cost(a)).toFixed(2);
    const byRate = (rate(a) / rate(b)).toFixed(2);
    ratios.push([`${ours.name} / ${peer.name}`, shape.name, byTime, byRate, budget]);
  };
  for (const shape of shapes) {
    if (shape.modern) continue;
    for (const sdk of [sse, json]) compare(shape, memory, sdk, shape.sessions === 16 ? '2' : '');
    compare(shape, memory, bare, shape.sessions === 16 ? '0.3' : '');
    for (const sdk of [sse, json]) compare(shape, sqlite, sdk, shape.sessions === 16 ? '1' : '');
  }
  const handles = shapes.find(({ modern }) => modern);
  compare(handles, memory, bare, '');
  table('ratios, more is better', ['ours / peer', 'load', 'by CPU time', 'by calls/s', 'at least'], ratios);
  const spread = shapes[1] && sqlite.sums.get(shapes[1]);
  const byHandle = handles && memory.sums.get(handles);
  const fixed: string[][] = [];
  if (spread) {
    fixed.push(['sqlite: full calls/s / 1,620 (fastest of the Python seeds)', (rate(spread) / 1620).toFixed(2), '4']);
    fixed.push(['sqlite: full calls/s / 680 (slowest of the Python seeds)', (rate(spread) / 680).toFixed(2), '']);
  }
  if (byHandle) {
    fixed.push([
      '263 us (official 2026-07-28 handler) / ours by handle, memory:',
      (263 / cost(byHandle)).toFixed(2),
      '2',
    ]);
  }
  table('ratios to figures from elsewhere (peers not installed here)', ['what', 'ratio', 'at least'], fixed);
}

function rate({ calls, failed, seconds }: Sum): number {
  return (calls - failed) / seconds;
}

function cost({ micros, calls }: Sum): number {
  return micros / calls;
}
