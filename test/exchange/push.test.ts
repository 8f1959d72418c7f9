import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { BucketError } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import type { Exchange } from '../../host/exchange.ts';
import { Answer, elicit, elicitUrl, listRoots, NeedInput, sample } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import type { Json } from '../../host/session.ts';
import { SwitchedBucket } from '../support/buckets.ts';
import { type CallOptions, everything, failureIn, Host, modern, nobody, textOf } from '../support/call.ts';

type Handler = (exchange: Exchange) => string | Promise<string>;

/** A server with one tool, a session on it, and calls of that tool. */
async function asking(handler: Handler, bucket = new MemoryBucket()) {
  const registry = new Registry({ name: 'test', version: '1' });
  registry.tool('t', {}, (_, exchange) => handler(exchange));
  const host = new Host(registry, bucket);
  const session = await host.begin();
  const call = (options: CallOptions = {}) =>
    host.call('tools/call', { name: 't', arguments: {} }, { session, capabilities: everything, ...options });
  return { host, session, call };
}

const shown = ({ action, content, error }: Answer) => JSON.stringify({ action, content, error });
const age = elicit('How old?', z.object({ age: z.int(), name: z.string().optional() }));

describe('a question on the stream of a call', () => {
  test('row 44 is stored before it is sent, under an id nobody guesses, and forgotten when it is answered', async () => {
    const { session, call } = await asking(async (exchange) => shown(await exchange.ask('age', age)));
    const running = call({
      user: async ({ id, method, params }) => {
        const stored = await session.question(id);
        assert.deepEqual([stored?.method, stored?.params], [method, params]);
        return { action: 'accept', content: { age: 7, unasked: 1 } };
      },
    });
    assert.deepEqual(JSON.parse(textOf(await running.run())), { action: 'accept', content: { age: 7 } });
    const [question] = running.pushed;
    assert.match(question?.id ?? '', /^[A-Za-z0-9_-]{32}$/);
    assert.equal(question?.method, 'elicitation/create');
    assert.equal(await session.question(question?.id ?? ''), undefined);
  });

  test('row 39 row 40 finding 1 never reads as accepted unless the client accepted it', async () => {
    const { call } = await asking(async (exchange) => shown(await exchange.ask('age', age)));
    const answered = async (response: object) => textOf(await call({ user: () => response as never }).run());
    const error = { code: -1, message: 'no', action: 'accept' };
    assert.deepEqual(JSON.parse(await answered({ error })), { action: 'cancel', content: {}, error });
    const declined = { action: 'decline', content: { age: 7 } };
    assert.deepEqual(JSON.parse(await answered(declined)), { action: 'decline', content: {} });
    assert.deepEqual(JSON.parse(await answered({ action: 'cancel' })), { action: 'cancel', content: {} });
    const odds: Json[] = [null, 'accept', [], {}, { content: {} }, { action: 'yes' }, { action: true }];
    for (const odd of odds) {
      assert.equal(Answer.of(age, odd).accepted, false);
    }
  });

  test('row 41 stays open while answers come that do not fit it', async () => {
    const { session, call } = await asking(async (exchange) => shown(await exchange.ask('age', age)));
    const running = call({
      user: async ({ id }) => {
        for (const content of [{ age: 'seven' }, { age: 1.5 }, {}, undefined]) {
          const result = { action: 'accept', ...(content !== undefined && { content }) } as never;
          await assert.rejects(session.answer(id, { result }), { code: 'misfit' });
        }
        return { action: 'accept', content: { age: 7 } };
      },
    });
    assert.match(textOf(await running.run()), /"age":7/);
  });

  test('row 44 row 64 is answered through another process', async () => {
    const bucket = new MemoryBucket();
    const { host, session, call } = await asking(async (exchange) => shown(await exchange.ask('age', age)), bucket);
    const other = new Host(new Registry({ name: 'other', version: '1' }), bucket, host.clock);
    const running = call();
    const result = running.run();
    while (running.pushed.length === 0) await new Promise(setImmediate);
    const there = await other.sessions.open('session', nobody, session.id);
    await there?.answer(running.pushed[0]?.id ?? '', { result: { action: 'accept', content: { age: 8 } } });
    assert.match(textOf(await result), /"age":8/);
  });

  test('is cancelled when its time is over, and says so to the client', async () => {
    const asks: Handler = async (exchange) => shown(await exchange.ask('age', age, { timeout: 5000 }));
    const { host, session, call } = await asking(asks);
    const running = call({
      user: () => {
        host.clock.time += 5000;
        return undefined;
      },
    });
    assert.deepEqual(JSON.parse(textOf(await running.run())), { action: 'cancel', content: {} });
    const requestId = running.pushed[0]?.id ?? '';
    const [cancelled] = running.sent;
    assert.equal(cancelled?.method, 'notifications/cancelled');
    assert.equal(cancelled?.params?.requestId, requestId);
    await assert.rejects(session.answer(requestId, { result: { action: 'accept' } }), { code: 'no-such-question' });
  });

  test('ends with its call: the handler goes on with cancel and is not run again', async () => {
    let runs = 0;
    const { call } = await asking(() => {
      runs++;
      throw new NeedInput({ age });
    });
    const running = call({
      user: () => {
        running.cancel();
        return undefined;
      },
    });
    await running.run();
    assert.equal(runs, 1);
    const waiting = await asking(async (exchange) => shown(await exchange.ask('age', age)));
    const second = waiting.call({
      user: () => {
        second.cancel();
        return undefined;
      },
    });
    assert.match(textOf(await second.run()), /cancel/);
    assert.deepEqual(second.sent, []);
  });

  test('row 36 row 43 is not put twice: the same key has the same answer, also when the handler is run again', async () => {
    let runs = 0;
    const left = { runs: [0] };
    const { call } = await asking(async (exchange) => {
      left.runs.push(++runs);
      const first = await exchange.ask('first', age);
      assert.equal(await exchange.ask('first', age), first);
      if (!exchange.answered('second')) {
        assert.equal(exchange.answer('second'), undefined);
        throw new NeedInput({ first: age, second: age }, { state: left });
      }
      assert.deepEqual(exchange.state, { runs: [0, 1] });
      return `${first.content.age} ${exchange.answer('second')?.content.age}`;
    });
    let answers = 0;
    const running = call({ user: () => ({ action: 'accept', content: { age: ++answers } }) });
    assert.equal(textOf(await running.run()), '1 2');
    assert.equal(runs, 2);
    assert.equal(running.pushed.length, 2);
  });

  test('is put once for all who wait for it at the same time', async () => {
    const { call } = await asking(async (exchange) => {
      const both = await Promise.all([
        exchange.ask('same', age),
        exchange.ask('same', age),
        exchange.ask('other', age),
      ]);
      return both.map(({ content }) => content.age).join();
    });
    let answers = 0;
    const running = call({ user: () => ({ action: 'accept', content: { age: ++answers } }) });
    assert.equal(textOf(await running.run()), '1,1,2');
    assert.equal(running.pushed.length, 2);
  });

  test('is waited for while the bucket does not answer, and not stored for a call that was cancelled before', async () => {
    const bucket = new SwitchedBucket();
    const { host, session, call } = await asking(async (exchange) => shown(await exchange.ask('age', age)), bucket);
    const running = call({
      user: async ({ id }) => {
        bucket.down = true;
        for (const enough = bucket.asked + 3; bucket.asked < enough; ) {
          host.hub.wake(id);
          await new Promise(setImmediate);
        }
        bucket.down = false;
        return { action: 'accept', content: { age: 7 } };
      },
    });
    assert.match(textOf(await running.run()), /"age":7/);
    const cancelled = call();
    cancelled.cancel();
    assert.match(textOf(await cancelled.run()), /cancel/);
    assert.deepEqual([cancelled.pushed, await session.questions()], [[], {}]);
    const late = call({
      user: () => {
        bucket.down = true;
        host.clock.time += 120_000;
        return undefined;
      },
    });
    await assert.rejects(late.run(), BucketError);
  });

  test('is put at most eight times over by one handler', async () => {
    let runs = 0;
    const { call } = await asking(() => {
      throw new NeedInput({ [`question${runs++}`]: elicit('Again?') });
    });
    const running = call({ user: () => ({ action: 'accept' }) });
    assert.match(failureIn(await running.run()) ?? '', /still asks after 8 rounds/);
    assert.equal(running.pushed.length, 8);
    const stuck = await asking(() => {
      throw new NeedInput({ same: elicit('Again?') });
    });
    const same = await stuck.call({ user: () => ({ action: 'accept' }) }).run();
    assert.match(failureIn(same) ?? '', /asks what was answered already/);
  });

  test('row 45 row 46 asks for pages, of the model and for roots where the client can', async () => {
    const message = { role: 'user', content: { type: 'text', text: '?' } } as const;
    const { call } = await asking(async (exchange) => {
      const page = await exchange.ask('page', elicitUrl('Log in', 'https://example.org/'));
      const model = await exchange.ask('model', sample({ messages: [message], maxTokens: 5 }));
      const roots = await exchange.ask('roots', listRoots());
      return [page, model, roots].map(shown).join('\n');
    });
    const said = { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm' };
    const roots = { roots: [{ uri: 'file:///a' }] };
    const running = call({
      user: ({ method }) =>
        method === 'roots/list'
          ? roots
          : method === 'sampling/createMessage'
            ? said
            : { action: 'accept', content: {} },
    });
    const answers = textOf(await running.run()).split('\n');
    assert.deepEqual(
      answers.map((answer) => JSON.parse(answer)),
      [{}, said, roots].map((content) => ({ action: 'accept', content })),
    );
    const [page] = running.pushed;
    assert.equal(page?.params.mode, 'url');
    assert.equal(typeof page?.params.elicitationId, 'string');
    const old = call({ revision: '2025-06-18' });
    assert.match(failureIn(await old.run()) ?? '', /2025-06-18 has no words for this question/);
  });

  test('row 37 is not put to a client that cannot be asked: the default, or a tool error', async () => {
    const { call } = await asking(async (exchange) => shown(await exchange.ask('age', age)));
    const able = { capabilities: everything };
    for (const [options, why] of [
      [{ capabilities: {} }, /did not declare what this needs: elicitation/],
      [{ capabilities: { elicitation: { url: {} } } }, /did not declare/],
      [{ ...able, session: null }, /has no session/],
      [{ ...able, revision: '2025-03-26' }, /2025-03-26 has no questions/],
    ] as const) {
      const running = call(options);
      assert.match(failureIn(await running.run()) ?? '', why);
      assert.deepEqual(running.pushed, []);
      const needing = await asking(() => {
        throw new NeedInput({ age });
      });
      assert.match(failureIn(await needing.call(options).run()) ?? '', why);
      const preset = await asking(async (exchange) =>
        shown(await exchange.ask('age', age, { default: new Answer('decline') })),
      );
      assert.match(textOf(await preset.call(options).run()), /decline/);
    }
    const preset = await asking(async (exchange) =>
      shown(await exchange.ask('age', age, { default: new Answer('decline') })),
    );
    const running = preset.call({ user: () => ({ action: 'cancel' }) });
    assert.match(textOf(await running.run()), /cancel/);
    assert.match(textOf(await preset.call({ capabilities: {}, revision: modern, session: null }).run()), /decline/);
  });

  test('row 33 row 42 finding 3 finding 4 heeds no request state and no answers that a client of a handshake revision sends', async () => {
    const { host, session } = await asking((exchange) => {
      assert.equal(exchange.state, undefined);
      return String(exchange.answered('age'));
    });
    const more = {
      requestState: { resolved: 'X' },
      inputResponses: { age: { action: 'accept', content: { age: 1 } } },
    };
    assert.equal(textOf(await host.tool('t', {}, { session, capabilities: everything, more })), 'false');
  });

  test('needs a timeout that is one', async () => {
    for (const timeout of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      const { call } = await asking(async (exchange) => shown(await exchange.ask('age', age, { timeout })));
      assert.match(failureIn(await call().run()) ?? '', /expected a timeout/);
    }
  });
});
