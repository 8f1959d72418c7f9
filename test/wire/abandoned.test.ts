import assert from 'node:assert/strict';
import test from 'node:test';
import { elicit } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { serveFor } from '../support/served.ts';
import { begin, type Body, Events, notification, resultOf, rpc, send } from '../support/wire.ts';

const call = (name: string, id: string | number) => rpc('tools/call', { name }, id);
const textOf = (body: Body) => JSON.stringify(resultOf(body)['content']);

for (const version of ['2025-06-18', '2025-11-25']) {
  test(`fault 096 in ${version} 0 and the empty text are ids like any other: their calls can be cancelled`, async (t) => {
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('wait', {}, async (_, exchange) => {
      exchange.progress(1);
      await exchange.waitCancelled();
      return 'stopped';
    });
    const { url } = await serveFor(t, registry);
    const session = { 'Mcp-Session-Id': await begin(url, version) };
    for (const id of [0, '']) {
      const params = { name: 'wait', _meta: { progressToken: id } };
      const stream = await Events.open(url, session, rpc('tools/call', params, id));
      const progress = await stream.next();
      assert.deepEqual(progress?.['params'], { progressToken: id, progress: 1 });
      await send(url, notification('notifications/cancelled', { requestId: id }), session);
      assert.equal(await stream.next(), undefined);
    }
  });

  test(`fault 100 in ${version} calls that their client forgot end with their questions, and the session is as before`, async (t) => {
    const registry = new Registry({ name: 'test', version: '1' });
    const ended: string[] = [];
    registry.tool('ask', {}, async (_, exchange) => {
      try {
        const { action } = await exchange.ask('sure', elicit('Sure?'));
        ended.push(action);
        return action;
      } catch (error) {
        ended.push('refused');
        throw error;
      }
    });
    registry.tool('hello', {}, () => 'hello');
    let now = 1_800_000_000_000;
    const { url, audit } = await serveFor(t, registry, { now: () => now });
    const session = { 'Mcp-Session-Id': await begin(url, version, { elicitation: {} }) };
    const streams = await Promise.all(
      Array.from({ length: 100 }, (_, id) => Events.open(url, session, call('ask', id))),
    );
    // No more than 64 questions of one session are open; who comes later hears of it at once.
    const asked = () => audit.events.filter(({ event }) => event === 'elicitation asked').length;
    assert.deepEqual([asked(), ended.length], [64, 36]);
    for (const stream of streams) stream.leave();
    now += 120_000;
    while (ended.length < 100) await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(ended.filter((action) => action === 'cancel').length, 64);
    assert.match(textOf((await send(url, call('hello', 1), session)).body), /hello/);
    const again = await Events.open(url, session, call('ask', 1));
    const { id = null } = (await again.next()) ?? {};
    await send(url, { jsonrpc: '2.0', id, result: { action: 'decline' } }, session);
    assert.match(textOf((await again.next()) ?? {}), /decline/);
  });
}
