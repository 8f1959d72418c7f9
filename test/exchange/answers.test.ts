import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import type { Exchange } from '../../host/exchange.ts';
import { Answer, elicit, elicitUrl, NeedInput } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { type Json, Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { type CallOptions, everything, failureIn, Host, modern, nobody, textOf } from '../support/call.ts';

type Members = { readonly [name: string]: Json };
type Handler = (exchange: Exchange) => string | Promise<string>;

const age = elicit('How old?', z.object({ age: z.int() }));
const bare = elicit('Sure?');
const page = elicitUrl('Log in', 'https://example.org/');
const shown = ({ action, content }: Answer) => JSON.stringify([action, content]);
const invalid = { code: -32602, message: 'invalid requestState' };
const asking: CallOptions = { revision: modern, capabilities: everything };

function hostOf(handler: Handler, bucket = new MemoryBucket()): Host {
  const registry = new Registry({ name: 'test', version: '1' });
  registry.tool('t', {}, (_, exchange) => handler(exchange));
  return new Host(registry, bucket);
}

function answer(host: Host, asked: Members, inputResponses: Json): Promise<Members> {
  return host.tool('t', {}, { ...asking, more: { requestState: asked.requestState ?? null, inputResponses } });
}

describe('an answer', () => {
  test('fault 085 fault 086 row 39 declines or cancels whatever its content, on every revision', async () => {
    for (const action of ['decline', 'cancel']) {
      for (const content of [undefined, null, {}, { age: 'x' }]) {
        const given = { action, ...(content !== undefined && { content }) } as Members;
        const host = hostOf(async (exchange) => shown(await exchange.ask('age', age)));
        const session = await host.begin();
        const pushed = await host.tool('t', {}, { session, capabilities: everything, user: () => given });
        assert.equal(textOf(pushed), `["${action}",{}]`);
        const asked = await host.tool('t', {}, asking);
        assert.equal(textOf(await answer(host, asked, { age: given })), `["${action}",{}]`);
      }
    }
  });

  test('fault 088 row 41 that accepts without content has none: enough for a form of no fields and for a page', async () => {
    for (const [question, isEnough] of [
      [bare, true],
      [page, true],
      [elicit('Who?', z.object({ name: z.string().optional() })), true],
      [age, false],
    ] as const) {
      const host = hostOf(async (exchange) => shown(await exchange.ask('q', question)));
      const session = await host.begin();
      const refused: unknown[] = [];
      const running = host.call(
        'tools/call',
        { name: 't' },
        {
          session,
          capabilities: everything,
          user: async ({ id }) => {
            const accepted = session.answer(id, { result: { action: 'accept' } });
            await accepted.catch((error) => refused.push(error.code));
            if (refused.length > 0) return { action: 'accept', content: { age: 1 } };
            host.hub.wake(id);
            return undefined;
          },
        },
      );
      assert.equal(textOf(await running.run()), isEnough ? '["accept",{}]' : '["accept",{"age":1}]');
      assert.deepEqual(refused, isEnough ? [] : ['misfit']);
      const asked = await host.tool('t', {}, asking);
      const answered = await answer(host, asked, { q: { action: 'accept' } });
      if (isEnough) assert.equal(textOf(answered), '["accept",{}]');
      else assert.equal(answered.resultType, 'input_required');
    }
  });

  test('fault 090 is not asked of a client whose capability has an odd shape', async () => {
    const host = hostOf(async (exchange) => shown(await exchange.ask('age', age)));
    const session = await host.begin();
    for (const elicitation of [true, null, 'x', [], 1, { url: true }] as Json[]) {
      const running = host.call('tools/call', { name: 't' }, { session, capabilities: { elicitation } });
      assert.match(failureIn(await running.run()) ?? '', /did not declare/);
      assert.deepEqual(running.pushed, []);
      await assert.rejects(host.tool('t', {}, { ...asking, capabilities: { elicitation } }), { code: -32021 });
    }
  });

  test('row 38 fault 091 is waited for two minutes; a later one is refused and no other question hears of it', async () => {
    for (const [after, action] of [
      [119_999, 'accept'],
      [120_000, 'cancel'],
    ] as const) {
      const host = hostOf(async (exchange) => {
        const first = await exchange.ask('first', bare);
        return `${first.action} ${(await exchange.ask('second', bare)).action}`;
      });
      const session = await host.begin();
      const late: unknown[] = [];
      const running = host.call(
        'tools/call',
        { name: 't' },
        {
          session,
          capabilities: everything,
          user: async ({ id }) => {
            const [first] = running.pushed;
            if (id !== first?.id) {
              await session
                .answer(first?.id ?? '', { result: { action: 'accept' } })
                .catch((error) => late.push(error.code));
              return { action: 'decline' };
            }
            host.clock.time += after;
            return after < 120_000 ? { action: 'accept' } : undefined;
          },
        },
      );
      assert.equal(textOf(await running.run()), `${action} decline`);
      assert.deepEqual(late, ['no-such-question']);
    }
  });

  test('fault 093 that races the cancellation of its call settles once, a thousand times', async () => {
    const counts = { accept: 0, decline: 0, cancel: 0 };
    const host = hostOf(async (exchange) => {
      const { action } = await exchange.ask('sure', bare);
      counts[action]++;
      return action;
    });
    const session = await host.begin();
    for (let round = 0; round < 1000; round++) {
      const user = async ({ id }: { readonly id: string }) => {
        const answered = session.answer(id, { result: { action: 'accept' } });
        for (let turns = round % 20; turns > 0; turns--) await undefined;
        if (round % 2 === 0) await answered;
        running.cancel();
        await answered.catch((error) => assert.equal(error.code, 'no-such-question'));
        host.hub.wake(id);
        return undefined;
      };
      const running = host.call('tools/call', { name: 't' }, { session, capabilities: everything, user });
      assert.match(textOf(await running.run()), /^(accept|cancel)$/);
      assert.equal(await session.question(running.pushed[0]?.id ?? ''), undefined);
    }
    assert.equal(counts.accept + counts.cancel, 1000);
    assert.ok(counts.accept > 0 && counts.cancel > 0, JSON.stringify(counts));
  });

  test('row 70 that another process stored is found at the next look, a fifth of a second later at most', async (t) => {
    const host = hostOf(async (exchange) => shown(await exchange.ask('sure', bare)));
    const session = await host.begin();
    const asked = Promise.withResolvers<string>();
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const user: CallOptions['user'] = ({ id }) => void asked.resolve(id) as undefined;
    const running = host.tool('t', {}, { session, capabilities: everything, user });
    const id = await asked.promise;
    await new Promise(setImmediate);
    // Nobody wakes the one that waits: it is as if the answer came to another process.
    await session.answer(id, { result: { action: 'accept' } });
    let isDone = false;
    void running.then(() => (isDone = true));
    t.mock.timers.tick(199);
    await new Promise(setImmediate);
    assert.equal(isDone, false);
    t.mock.timers.tick(1);
    assert.equal(textOf(await running), '["accept",{}]');
  });

  test('fault 094 is not waited for when the session has ended, however it ended', async () => {
    for (const end of ['terminate', 'delete', 'expire'] as const) {
      const host = hostOf(async (exchange) => shown(await exchange.ask('sure', bare)));
      const { id } = await host.begin();
      const session = await host.sessions.open('session', nobody, id);
      assert.ok(session);
      const running = host.call(
        'tools/call',
        { name: 't' },
        {
          session,
          capabilities: everything,
          user: async () => {
            if (end === 'expire') host.clock.time += 3_600_000;
            else await session[end]();
            return undefined;
          },
        },
      );
      assert.equal(textOf(await running.run()), '["cancel",{}]');
      const late = session.answer(running.pushed[0]?.id ?? '', { result: { action: 'accept' } });
      await assert.rejects(late, { code: end === 'terminate' ? 'terminated' : 'gone' });
    }
  });

  test('row 47 may come as an argument where the client cannot be asked: a tool hands it over as the default', async () => {
    const registry = new Registry({ name: 'test', version: '1' });
    const input = z.object({ name: z.string(), confirm: z.boolean().optional() });
    registry.tool('purge', { input }, async ({ name, confirm }, exchange) => {
      const preset = confirm === undefined ? undefined : new Answer(confirm ? 'accept' : 'decline');
      const { action } = await exchange.ask('confirm', elicit(`Purge ${name}?`), { default: preset });
      return action;
    });
    const host = new Host(registry);
    const session = await host.begin();
    for (const options of [
      { revision: '2025-03-26', session },
      { revision: '2025-11-25', session },
      { revision: '2025-11-25', session: null, capabilities: everything },
      { revision: modern },
    ] satisfies CallOptions[]) {
      for (const [confirm, action] of [
        [true, 'accept'],
        [false, 'decline'],
      ] as const) {
        assert.equal(textOf(await host.tool('purge', { name: 'x', confirm }, options)), action);
      }
      const unasked = host.tool('purge', { name: 'x' }, options);
      if (options.revision === modern) await assert.rejects(unasked, { code: -32021 });
      else assert.match(failureIn(await unasked) ?? '', /the client cannot be asked/);
    }
    // Who can be asked is asked, whatever the argument says.
    const user = () => ({ action: 'cancel' });
    const asked = { session, capabilities: everything, user };
    assert.equal(textOf(await host.tool('purge', { name: 'x', confirm: true }, asked)), 'cancel');
  });
});

describe('a request state', () => {
  const once = () => hostOf(async (exchange) => shown(await exchange.ask('sure', bare)));
  const yes = { sure: { action: 'accept' } };

  test('fault 105 row 32 with any bit flipped, cut, padded or encoded anew is refused; null is none', async () => {
    const host = once();
    const asked = await host.tool('t', {}, asking);
    const state = String(asked.requestState);
    const altered = [state.slice(1), state.slice(0, -1), `${state}=`, `${state}\n`, ` ${state}`, `"${state}"`];
    altered.push(encodeURIComponent(`${state}/`), Buffer.from(state).toString('base64'), state.toLowerCase());
    for (let at = 0; at < state.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const flipped = String.fromCharCode(state.charCodeAt(at) ^ (1 << bit));
        altered.push(state.slice(0, at) + flipped + state.slice(at + 1));
      }
    }
    for (const requestState of altered) {
      await assert.rejects(host.tool('t', {}, { ...asking, more: { requestState, inputResponses: yes } }), invalid);
    }
    const fresh = await host.tool('t', {}, { ...asking, more: { requestState: null, inputResponses: null } });
    assert.equal(fresh.resultType, 'input_required');
    assert.notEqual(fresh.requestState, state);
    assert.equal(textOf(await answer(host, asked, yes)), '["accept",{}]');
  });

  test('fault 105 lives its time to the millisecond, of whatever length, and no time is refused', async () => {
    const transitions = await loadTransitions();
    const clock = { time: 1_800_000_000_000 };
    const open = (stateTtl: number, sessionTtl = 1000) => {
      const bucket = new MemoryBucket();
      const log = () => undefined;
      return new Sessions({ bucket, transitions, log, sessionTtl, stateTtl, now: () => clock.time });
    };
    for (const ttl of [1, 500, 1000]) {
      const sessions = open(ttl);
      const { id } = await sessions.create('request-state', nobody, {}, { binding: 'b' });
      clock.time += ttl - 1;
      assert.ok(await sessions.open('request-state', nobody, id));
      clock.time += 1;
      assert.equal(await sessions.open('request-state', nobody, id), undefined);
    }
    for (const ttl of [0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      assert.throws(() => open(ttl), { name: 'TypeError', message: /^stateTtl: expected/ });
      assert.throws(() => open(1, ttl), { name: 'TypeError', message: /^sessionTtl: expected/ });
    }
  });

  test('row 27 is not kept alive by who tries it', async () => {
    const host = once();
    const asked = await host.tool('t', {}, asking);
    for (let minutes = 0; minutes < 10; minutes++) {
      await assert.rejects(answer(host, asked, { sure: 5 }), { code: -32602 });
      host.clock.time += 60_000;
    }
    await assert.rejects(answer(host, asked, yes), invalid);
  });

  test('fault 107 that was used is refused as what it is: the first use has its result, the same again has an error', async () => {
    const host = once();
    const asked = await host.tool('t', {}, asking);
    assert.equal(textOf(await answer(host, asked, yes)), '["accept",{}]');
    for (let times = 0; times < 3; times++) await assert.rejects(answer(host, asked, yes), invalid);
  });

  test('fault 109 that is left out is asked for again; one that was never issued is refused', async () => {
    const host = once();
    const asked = await host.tool('t', {}, asking);
    const again = await host.tool('t', {}, { ...asking, more: { inputResponses: yes } });
    assert.equal(again.resultType, 'input_required');
    const invented = { requestState: 'A'.repeat(32) };
    await assert.rejects(answer(host, invented, yes), invalid);
    assert.equal(textOf(await answer(host, asked, yes)), '["accept",{}]');
  });

  test('fault 108 matches answers by the exact key of their question, whatever the key', async () => {
    const keys = ['', 'undefined', '__proto__', 'constructor', 'a.b', 'ü'];
    const host = hostOf((exchange) => {
      const missing = keys.filter((key) => !exchange.answered(key));
      if (missing.length > 0) throw new NeedInput(Object.fromEntries(missing.map((key) => [key, age])));
      return JSON.stringify(keys.map((key) => exchange.answer(key)?.content.age));
    });
    const asked = await host.tool('t', {}, asking);
    assert.deepEqual(Object.keys(asked.inputRequests as object), keys);
    const responses = keys.map((key, index) => [key, { action: 'accept', content: { age: index } }]);
    const done = await answer(host, asked, Object.fromEntries(responses));
    assert.deepEqual(JSON.parse(textOf(done)), [0, 1, 2, 3, 4, 5]);
    const session = await host.begin();
    const pushed = await host.tool(
      't',
      {},
      { session, capabilities: everything, user: () => ({ action: 'accept', content: { age: 1 } }) },
    );
    assert.deepEqual(JSON.parse(textOf(pushed)), [1, 1, 1, 1, 1, 1]);
  });
});
