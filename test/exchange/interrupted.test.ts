import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { type Revision, ServerClosing } from '../../host/call.ts';
import type { Exchange } from '../../host/exchange.ts';
import { elicit, NeedInput } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import type { Json, Session } from '../../host/session.ts';
import { mortal } from '../support/buckets.ts';
import { type CallOptions, everything, Host, nobody, type Pushed, textOf } from '../support/call.ts';

type Handler = (exchange: Exchange) => string | Promise<string>;

const fields = z.object({ n: z.int() });
const accept = (n: number) => ({ action: 'accept', content: { n } });

/** Hosts over one bucket, each a process of its own; what one of them is asked when it dies stays unanswered by it. */
class Cluster {
  readonly #bucket = new MemoryBucket();
  readonly #clock = { time: 1_800_000_000_000 };
  readonly #handler: Handler;

  constructor(handler: Handler) {
    this.#handler = handler;
  }

  process() {
    const registry = new Registry({ name: 'test', version: '1' });
    const input = z.object({ x: z.string().optional() });
    registry.tool('t', { input }, (_, exchange) => this.#handler(exchange));
    registry.tool('other', { input }, (_, exchange) => this.#handler(exchange));
    const { bucket, ...stops } = mortal(this.#bucket);
    return { host: new Host(registry, bucket, this.#clock), ...stops };
  }

  /** A call whose process dies over its last question, which is answered all the same; then a process that lives. */
  async interrupted(answers: readonly Json[], revision: Revision = '2025-11-25') {
    const { host: first, die } = this.process();
    const { host } = this.process();
    const { id } = await first.begin();
    const session = await sessionOn(host, id);
    const died = Promise.withResolvers<void>();
    const left = [...answers];
    const user = async ({ id: question }: Pushed) => {
      const answer = left.shift() as { readonly [name: string]: Json };
      if (left.length > 0) return answer;
      die();
      await session.answer(question, 'error' in answer ? { error: answer.error ?? null } : { result: answer });
      died.resolve();
      return undefined;
    };
    const options = { session: await sessionOn(first, id), capabilities: everything, revision };
    void first.tool('t', { x: 'a' }, { ...options, user });
    await died.promise;
    return { host, session, options: { ...options, session } };
  }
}

async function sessionOn(host: Host, id: string): Promise<Session> {
  const session = await host.sessions.open('session', nobody, id);
  assert.ok(session);
  return session;
}

/** The text of a call, and how many questions it asked; each is answered with that number. */
async function again(host: Host, options: CallOptions, name = 't', args: object = { x: 'a' }) {
  let asked = 0;
  const user = () => accept(100 + ++asked);
  const text = textOf(await host.tool(name, args as never, { ...options, user }));
  return { text, asked };
}

const asking: Handler = async (exchange) => `got ${(await exchange.ask('n', elicit('?', fields))).content.n}`;

describe('a state of 2026-07-28 whose call died', () => {
  test('finding 2 row 30 is spent: what the call was about to do may have happened', async () => {
    const reached = Promise.withResolvers<void>();
    let effects = 0;
    const cluster = new Cluster(async (exchange) => {
      const answer = await exchange.ask('n', elicit('?', fields));
      effects++;
      reached.resolve();
      return new Promise((resolve) => exchange.signal.addEventListener('abort', () => resolve(`${answer.action}`)));
    });
    const { host: first, die } = cluster.process();
    const { host } = cluster.process();
    const options: CallOptions = { revision: '2026-07-28', capabilities: everything };
    const { requestState = null } = await host.tool('t', { x: 'a' }, options);
    const more = { requestState, inputResponses: { n: accept(1) } };
    void first.tool('t', { x: 'a' }, { ...options, more });
    await reached.promise;
    die();
    const tries = Array.from({ length: 3 }, () => host.tool('t', { x: 'a' }, { ...options, more }));
    for (const outcome of await Promise.allSettled(tries)) {
      assert.ok(outcome.status === 'rejected' && outcome.reason.code === -32602);
    }
    assert.equal(effects, 1);
  });
});

describe('an answer that came when its call had died', () => {
  let runs = 0;
  const needing: Handler = (exchange) => {
    const answer = exchange.answer('n');
    if (answer !== undefined) return `got ${answer.content.n} with ${JSON.stringify(exchange.state)}`;
    throw new NeedInput({ n: elicit('?', fields) }, { state: { run: ++runs } });
  };

  for (const revision of ['2025-06-18', '2025-11-25'] as const) {
    test(`row 33 row 44 is found by the same call in ${revision}: nothing is asked again, and the state is that of then`, async () => {
      const { host, options } = await new Cluster(asking).interrupted([accept(1)], revision);
      assert.deepEqual(await again(host, options), { text: 'got 1', asked: 0 });
      assert.deepEqual(await again(host, options), { text: 'got 101', asked: 1 });
      runs = 0;
      const stated = await new Cluster(needing).interrupted([accept(2)], revision);
      runs = 50;
      assert.deepEqual(await again(stated.host, stated.options), { text: 'got 2 with {"run":1}', asked: 0 });
    });
  }

  test('row 44 brings the answers before it: none of several is asked for again', async () => {
    const several: Handler = async (exchange) => {
      if (!exchange.answered('a')) {
        throw new NeedInput({ a: elicit('a', fields), b: elicit('b', fields) }, { state: 'kept' });
      }
      const c = await exchange.ask('c', elicit('c', fields));
      const [a, b] = ['a', 'b'].map((key) => exchange.answer(key)?.content.n);
      return JSON.stringify([a, b, c.content.n, exchange.state]);
    };
    for (const [answers, text, asked] of [
      [[accept(1)], '[1,101,102,"kept"]', 2],
      [[accept(1), accept(2)], '[1,2,101,"kept"]', 1],
      [[accept(1), accept(2), accept(3)], '[1,2,3,"kept"]', 0],
    ] as const) {
      const { host, options } = await new Cluster(several).interrupted(answers);
      assert.deepEqual(await again(host, options), { text, asked });
    }
  });

  test('is for one of the calls that come at once; the others ask', async () => {
    const { host, options } = await new Cluster(asking).interrupted([accept(1)]);
    const calls = await Promise.all(Array.from({ length: 4 }, () => again(host, options)));
    assert.deepEqual(calls.map(({ text }) => text).sort(), ['got 1', 'got 101', 'got 101', 'got 101']);
  });

  test('is for no other call: not for other arguments, another tool or another session', async () => {
    const { host, options } = await new Cluster(asking).interrupted([accept(1)]);
    for (const [name, args, session] of [
      ['t', { x: 'b' }, options.session],
      ['t', {}, options.session],
      ['other', { x: 'a' }, options.session],
      ['t', { x: 'a' }, await host.begin()],
    ] as const) {
      assert.deepEqual(await again(host, { ...options, session }, name, args), { text: 'got 101', asked: 1 });
    }
    assert.deepEqual(await again(host, options), { text: 'got 1', asked: 0 });
  });

  test('is no longer used when its question would have been given up, nor if it is an error', async () => {
    const late = await new Cluster(asking).interrupted([accept(1)]);
    late.host.clock.time += 120_000;
    assert.deepEqual(await again(late.host, late.options), { text: 'got 101', asked: 1 });
    const failed = await new Cluster(asking).interrupted([{ error: { code: -1, message: 'no' } }]);
    assert.deepEqual(await again(failed.host, failed.options), { text: 'got 101', asked: 1 });
  });

  test('may be a refusal, and is that then', async () => {
    const deciding: Handler = async (exchange) => (await exchange.ask('n', elicit('?', fields))).action;
    for (const action of ['decline', 'cancel']) {
      const { host, options } = await new Cluster(deciding).interrupted([{ action }]);
      assert.deepEqual(await again(host, options), { text: action, asked: 0 });
    }
  });

  test('is not taken from a call that lives, however equal', async () => {
    const cluster = new Cluster(asking);
    const hosts = [cluster.process().host, cluster.process().host];
    const { id } = await (hosts[0] as Host).begin();
    const texts = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const host = hosts[index % 2] as Host;
        const user = () => accept(index);
        const session = await sessionOn(host, id);
        return textOf(await host.tool('t', { x: 'a' }, { session, capabilities: everything, user }));
      }),
    );
    assert.deepEqual(
      texts,
      texts.map((_, index) => `got ${index}`),
    );
  });

  test('is not used twice: a call that was only slow finds it taken, and is cancelled', async () => {
    const cluster = new Cluster(asking);
    const slow = cluster.process();
    const { host } = cluster.process();
    const { id } = await slow.host.begin();
    const session = await sessionOn(host, id);
    const answered = Promise.withResolvers<() => void>();
    const user = async ({ id: question }: Pushed) => {
      const goOn = slow.pauseBeforeSwaps();
      await session.answer(question, { result: accept(1) });
      answered.resolve(goOn);
      return undefined;
    };
    const options = { session: await sessionOn(slow.host, id), capabilities: everything };
    const first = slow.host.tool('t', { x: 'a' }, { ...options, user });
    const goOn = await answered.promise;
    assert.deepEqual(await again(host, { ...options, session }), { text: 'got 1', asked: 0 });
    goOn();
    assert.equal(textOf(await first), 'got undefined');
  });

  test('is kept when a server closes in an orderly way, too', async () => {
    const cluster = new Cluster(asking);
    const { host } = cluster.process();
    const session = await host.begin();
    const options = { session, capabilities: everything };
    const user = async ({ id }: Pushed) => {
      running.cancel(new ServerClosing());
      await closed;
      await session.answer(id, { result: accept(3) });
      answered.resolve();
      return undefined;
    };
    const answered = Promise.withResolvers<void>();
    const running = host.call('tools/call', { name: 't', arguments: { x: 'a' } }, { ...options, user });
    const closed = running.run();
    await answered.promise;
    assert.deepEqual(await again(cluster.process().host, options), { text: 'got 3', asked: 0 });
  });
});
