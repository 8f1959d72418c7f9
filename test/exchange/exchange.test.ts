import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { logLevels } from '../../host/call.ts';
import { Dispatcher } from '../../host/dispatcher.ts';
import type { Exchange } from '../../host/exchange.ts';
import { elicit, NeedInput } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { everything, Host, modern, nobody, textOf } from '../support/call.ts';

function hostOf(handler: (exchange: Exchange) => string | Promise<string>): Host {
  const registry = new Registry({ name: 'test', version: '1' });
  registry.tool('t', {}, (_, exchange) => handler(exchange));
  return new Host(registry);
}
const call = { name: 't' };

describe('an exchange', () => {
  test('row 48 finding 11 fault 102 fault 104 sends progress only with a token, with its type, and only if it grew', async () => {
    const host = hostOf((exchange) => {
      for (const done of [1, 1, 0.5, 2.5, Number.NaN, Number.POSITIVE_INFINITY, 3]) exchange.progress(done);
      exchange.progress(4, 10, 'nearly');
      return 'done';
    });
    const silent = host.call('tools/call', call);
    await silent.run();
    assert.deepEqual(silent.sent, []);
    for (const progressToken of [0, 5, '']) {
      const heard = host.call('tools/call', call, { progressToken });
      await heard.run();
      assert.deepEqual(
        heard.sent.map(({ params }) => [params?.progressToken, params?.progress]),
        [1, 2.5, 3, 4].map((done) => [progressToken, done]),
      );
      assert.deepEqual(heard.sent.at(-1)?.params, { progressToken, progress: 4, total: 10, message: 'nearly' });
    }
  });

  test('row 48 fault 104 sends progress that grows over all runs of a handler', async () => {
    const host = hostOf((exchange) => {
      for (const done of [1, 2]) exchange.progress(done);
      if (!exchange.answered('sure')) throw new NeedInput({ sure: elicit('Sure?') });
      exchange.progress(3);
      return 'done';
    });
    const options = { session: await host.begin(), capabilities: everything, progressToken: 1 };
    const heard = host.call('tools/call', call, { ...options, user: () => ({ action: 'accept' }) });
    assert.equal(textOf(await heard.run()), 'done');
    assert.deepEqual(
      heard.sent.map(({ params }) => params?.progress),
      [1, 2, 3],
    );
  });

  test('row 49 sends log messages of the level asked for and above, none if none was asked for', async () => {
    const host = hostOf((exchange) => {
      for (const level of logLevels) exchange.log(level, { level }, 'printer');
      assert.throws(() => exchange.log('loud' as never, 'x'), TypeError);
      return 'done';
    });
    const silent = host.call('tools/call', call);
    await silent.run();
    assert.deepEqual(silent.sent, []);
    for (const [index, logLevel] of logLevels.entries()) {
      const heard = host.call('tools/call', call, { logLevel });
      await heard.run();
      assert.deepEqual(
        heard.sent.map(({ params }) => params?.level),
        logLevels.slice(index),
      );
      assert.deepEqual(heard.sent[0]?.params, { level: logLevel, logger: 'printer', data: { level: logLevel } });
    }
  });

  test('row 53 hears of the cancellation, and sends nothing after it', async () => {
    const started = Promise.withResolvers<void>();
    const host = hostOf(async (exchange) => {
      assert.equal(exchange.cancelled, false);
      started.resolve();
      await exchange.waitCancelled();
      assert.equal(exchange.cancelled, true);
      assert.equal(exchange.signal.aborted, true);
      await exchange.waitCancelled();
      exchange.progress(1);
      exchange.log('error', 'late');
      return 'stopped';
    });
    const running = host.call('tools/call', call, { progressToken: 1, logLevel: 'debug' });
    const result = running.run();
    await started.promise;
    running.cancel();
    assert.equal(textOf(await result), 'stopped');
    assert.deepEqual(running.sent, []);
  });

  test('row 53 does nothing for anybody once its call has ended', async () => {
    let kept: Exchange | undefined;
    const host = hostOf((exchange) => {
      kept = exchange;
      return 'done';
    });
    const ended = host.call('tools/call', call, { progressToken: 1, logLevel: 'debug', session: await host.begin() });
    await ended.run();
    assert.ok(kept);
    const exchange = kept;
    const over = { message: 'the exchange is over: its call has ended' };
    assert.throws(() => exchange.progress(1), over);
    assert.throws(() => exchange.log('error', 'x'), over);
    await assert.rejects(exchange.ask('k', elicit('?')), over);
    await assert.rejects(exchange.sessions.open(), over);
    await assert.rejects(exchange.sessions.use('x'), over);
    assert.equal(exchange.clientInfo?.name, 'test');
    assert.deepEqual(ended.sent, []);
  });

  test('row 2 shows what the request is', async () => {
    const host = hostOf((exchange) => {
      const { revision, owner, clientCapabilities, request, session, state } = exchange;
      assert.equal(session, null);
      assert.equal(state, undefined);
      assert.equal(request.method, 'POST');
      return JSON.stringify({ revision, owner, clientCapabilities });
    });
    const scope = { namespace: 'n', owner: 'alice' };
    const result = await host.tool('t', {}, { revision: modern, scope, capabilities: { roots: {} } });
    assert.deepEqual(JSON.parse(textOf(result)), {
      revision: modern,
      owner: 'alice',
      clientCapabilities: { roots: {} },
    });
  });

  test('row 3 row 4 row 6 finding 5 finding 6 opens a handle for its owner alone; an id of another kind is none', async () => {
    const session = Promise.withResolvers<string>();
    const host = hostOf(async ({ sessions }) => {
      const opened = await sessions.open();
      await opened.set('n', 1);
      session.resolve(opened.id);
      return opened.kind;
    });
    const alice = { namespace: '', owner: 'alice' };
    assert.equal(textOf(await host.tool('t', {}, { scope: alice })), 'handle');
    const handle = await session.promise;
    const uses = async (id: unknown, scope = alice) => {
      let found: unknown;
      const registry = new Registry({ name: 'test', version: '1' });
      registry.tool('t', {}, async (_, { sessions }) => {
        found = (await sessions.use(id as string))?.get('n');
        return '';
      });
      await new Dispatcher(registry, host.hub).request(host.call('tools/call', call, { scope }));
      return found;
    };
    assert.equal(await uses(handle), 1);
    const protocol = await host.begin(alice);
    const state = await host.sessions.create('request-state', alice, {}, { binding: 'b' });
    for (const id of [protocol.id, state.id, 'x', '', `/${handle}`, undefined, 7, {}, [handle]]) {
      assert.equal(await uses(id), undefined);
    }
    assert.equal(await uses(handle, { namespace: '', owner: 'bob' }), undefined);
    assert.equal(await uses(handle, { namespace: 'other', owner: 'alice' }), undefined);
  });

  test('row 5 finding 15 keeps its handles alive as long as the call runs, and by use alone', async () => {
    const hour = 3_600_000;
    let id = '';
    const host: Host = hostOf(async ({ sessions }) => {
      const handle = id === '' ? await sessions.open() : await sessions.use(id);
      if (handle === undefined) return 'unknown';
      id = handle.id;
      host.clock.time += 3 * hour;
      await handle.update(({ n = 0 }) => ({ n: Number(n) + 1 }));
      return String(handle.get('n'));
    });
    assert.equal(textOf(await host.tool('t')), '1');
    host.clock.time += hour - 1;
    assert.equal(textOf(await host.tool('t')), '2');
    for (let round = 0; round < 3; round++) {
      host.clock.time += hour - 1;
      assert.ok(await host.sessions.open('handle', nobody, id));
    }
    host.clock.time += hour;
    assert.equal(textOf(await host.tool('t')), 'unknown');
  });
});
