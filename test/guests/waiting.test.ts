import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { AnyBucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import {
  type AsyncComponent,
  type Component,
  InstanceError,
  instantiate,
  instantiateAsync,
  Pool,
} from '../../host/component.ts';
import { call, initialize, Served } from '../cli/run.ts';
import { later } from '../support/buckets.ts';
import { Asked, type Asker, loadAsker, type Manner } from '../support/guest.ts';
import { begin, rpc, send, start } from '../support/wire.ts';

const make = await loadAsker();
const people = (count: number) => ({ action: 'accept', content: { people: count } });

interface Host {
  readonly component: Component | AsyncComponent;
  readonly guests: Pool<Asker>;
  readonly logged: string[];
  /** Lets a guest ask in a session of that id. */
  ask(id: string, manner?: Manner): { readonly result: Promise<string>; readonly asked: Asked };
}

interface Options {
  readonly now?: () => number;
  readonly random?: (length: number) => Uint8Array;
  readonly imports?: Readonly<Record<string, object>>;
  readonly size?: number;
  readonly limit?: number;
  readonly instances?: number;
}

type Open = (bucket: MemoryBucket | SqliteBucket, options?: Options) => Promise<Host>;

const overSynchronous: Open = async (bucket, options = {}) => {
  const logged: string[] = [];
  const log = (level: string, event: string) => logged.push(`${level} ${event}`);
  return hostOf(await instantiate({ ...options, log, buckets: { sessions: bucket } }), logged, options);
};

const overAsynchronous: Open = async (bucket, options = {}) => {
  const logged: string[] = [];
  const log = (level: string, event: string) => logged.push(`${level} ${event}`);
  return hostOf(await instantiateAsync({ ...options, log, buckets: { sessions: later(bucket) } }), logged, options);
};

function hostOf(component: Component | AsyncComponent, logged: string[], { imports, size, limit }: Options): Host {
  const log = (level: string, event: string) => logged.push(`${level} guest ${event}`);
  const guests = new Pool<Asker>({
    make: (givenUp) => make({ ...component.suspendingImports(givenUp), ...imports }),
    log,
    size,
    limit,
  });
  return {
    component,
    guests,
    logged,
    ask(id, manner = 'ask-result') {
      const asked = new Asked();
      const stream = component.outputStream(asked.write);
      return { asked, result: guests.run((guest) => guest.ask('sessions', id, stream, manner)) };
    },
  };
}

/** The Node host over the same bucket, and what its client does. */
async function served(t: TestContext, store: AnyBucket) {
  const { url } = await start(t, { store, tools: { hello: () => ({ content: [] }) } });
  const id = await begin(url);
  return { id, url, answer: (question: string, result: object) => answerAt(url, id, question, result) };
}

async function answerAt(url: string, id: string, question: string, result: object): Promise<void> {
  const response = { jsonrpc: '2.0', id: question, result };
  assert.equal((await send(url, response as never, { 'Mcp-Session-Id': id })).status, 202);
}

for (const [name, open] of Object.entries({
  'a synchronous bucket': overSynchronous,
  'a bucket that answers later': overAsynchronous,
})) {
  describe(`a guest that waits for an answer, over ${name}`, () => {
    for (const manner of ['ask-result', 'block', 'poll'] as const) {
      test(`is suspended in ${manner}, answered over HTTP, which serves meanwhile, and goes on`, async (t) => {
        const bucket = new MemoryBucket();
        const { ask, guests, logged } = await open(bucket);
        const { id, url, answer } = await served(t, bucket);
        const { result, asked } = ask(id, manner);
        const question = await asked.question();
        const other = await send(url, rpc('tools/call', { name: 'hello', arguments: {} }), { 'Mcp-Session-Id': id });
        assert.equal(other.status, 200);
        assert.equal(await guests.run((guest) => guest.count('sessions', id)), 'none');
        await answer(question, people(6));
        assert.equal(await result, '6 come');
        assert.equal(await guests.run((guest) => guest.count('sessions', id)), '6');
        assert.deepEqual(logged, []);
      });
    }

    test('waits beside others, each for its own answer', async (t) => {
      const bucket = new MemoryBucket();
      const { ask } = await open(bucket);
      const { id, answer } = await served(t, bucket);
      const waiting = [ask(id), ask(id, 'poll'), ask(id, 'block')];
      const questions = await Promise.all(waiting.map(({ asked }) => asked.question()));
      assert.equal(new Set(questions).size, 3);
      for (const at of [2, 0, 1]) await answer(questions[at] ?? '', people(at + 1));
      assert.deepEqual(await Promise.all(waiting.map(({ result }) => result)), ['1 come', '2 come', '3 come']);
    });

    test('hears that the client declined', async (t) => {
      const bucket = new MemoryBucket();
      const { ask } = await open(bucket);
      const { id, answer } = await served(t, bucket);
      const { result, asked } = ask(id);
      await answer(await asked.question(), { action: 'decline' });
      assert.equal(await result, 'decline');
    });

    test('hears that the session was terminated or deleted', async () => {
      const bucket = new MemoryBucket();
      const { ask, component } = await open(bucket);
      const { Session } = component.sessions;
      for (const end of ['terminate', 'delete'] as const) {
        const session = await Session.initialize(component.bucket(bucket) as never);
        const { result, asked } = ask(session.id());
        await asked.question();
        if (end === 'terminate') await session.terminate('over');
        else await Session.delete(session as never);
        component.wake();
        assert.equal(await result, 'none session-ended');
      }
    });

    test('waits no longer than its question lives', async () => {
      let time = 1_800_000_000_000;
      const bucket = new MemoryBucket();
      const { ask, component } = await open(bucket, { now: () => time });
      const session = await component.sessions.Session.initialize(component.bucket(bucket) as never);
      const { result, asked } = ask(session.id());
      await asked.question();
      time += 10 * 60 * 1000;
      component.wake();
      assert.equal(await result, 'none expired');
    });

    test('fault 179: traps while it is suspended, which costs that call alone', async (t) => {
      const bucket = new MemoryBucket();
      let broken = true;
      const poll = async () => {
        if (broken) throw new Error('not declared');
        return Uint32Array.of(0);
      };
      const { ask, logged } = await open(bucket, {
        imports: { 'wasi:io/poll': { Pollable: class {}, poll } },
      });
      const { id, answer } = await served(t, bucket);
      const patient = ask(id);
      const question = await patient.asked.question();
      await assert.rejects(ask(id, 'poll').result, InstanceError);
      broken = false;
      assert.deepEqual(logged, ['error guest instance replaced']);
      const next = ask(id);
      await answer(await next.asked.question(), people(2));
      await answer(question, people(1));
      assert.deepEqual(await Promise.all([patient.result, next.result]), ['1 come', '2 come']);
    });

    test('fault 186: is given up when its call takes longer than the host allows', async (t) => {
      const bucket = new MemoryBucket();
      const { ask, logged, guests } = await open(bucket, { limit: 400, size: 1 });
      const { id } = await served(t, bucket);
      const { result } = ask(id);
      const behind = guests.run((guest) => guest.count('sessions', id));
      await assert.rejects(result, { name: 'InstanceError', message: /longer than 400 ms/ });
      assert.equal(await behind, 'none');
      assert.deepEqual(logged, ['error guest instance replaced']);
    });

    test('lives on when the session component fails meanwhile, and hears of it', async (t) => {
      const bucket = new MemoryBucket();
      let broken = false;
      const random = (length: number) => {
        if (broken) throw new Error('no entropy');
        return crypto.getRandomValues(new Uint8Array(length));
      };
      const { ask, component, logged, guests } = await open(bucket, { random, instances: 1 });
      const { id } = await served(t, bucket);
      const { result, asked } = ask(id);
      await asked.question();
      broken = true;
      await assert.rejects(async () => component.sessions.Session.initialize(component.bucket(bucket) as never));
      broken = false;
      component.wake();
      assert.equal(await result, 'none store-failed');
      assert.deepEqual(logged, ['error instance replaced']);
      assert.equal(await guests.run((guest) => guest.count('sessions', id)), 'none');
    });
  });
}

test('a guest over SQLite is answered through another process, and finds its work after all', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-session-guest-'));
  const path = join(folder, 'sessions.db');
  const bucket = new SqliteBucket(path);
  t.after(async () => {
    await bucket.close();
    rmSync(folder, { recursive: true });
  });
  const server = await Served.start('--bucket', `sqlite:${path}`);
  const id = await initialize(server.url);
  const { ask, guests } = await overSynchronous(bucket);
  const waiting = [ask(id), ask(id, 'block')];
  const [first = '', second = ''] = await Promise.all(waiting.map(({ asked }) => asked.question()));
  assert.equal(await call(server.url, id, 'bump'), '1');
  await answerAt(server.url, id, second, people(4));
  assert.equal(await waiting[1]?.result, '4 come');
  await answerAt(server.url, id, first, people(3));
  assert.equal(await waiting[0]?.result, '3 come');
  assert.equal(await guests.run((guest) => guest.count('sessions', id)), '3');
  assert.equal(await server.stop(), 0);
});
