import assert from 'node:assert/strict';
import test from 'node:test';
import { logLevels } from '../../host/call.ts';
import { Registry } from '../../host/registry.ts';
import { serveFor } from '../support/served.ts';
import { type Answered, begin, errorOf, meta, modern, rpc, send } from '../support/wire.ts';

function logging(): Registry {
  const registry = new Registry({ name: 'test', version: '1' });
  registry.tool('log', {}, (_, exchange) => {
    for (const level of logLevels) exchange.log(level, 'said');
    return 'logged';
  });
  return registry;
}

function levelsIn({ messages, headers }: Answered): string[] {
  const logged = messages.filter(({ method }) => method === 'notifications/message');
  const isStream = headers.get('content-type') === 'text/event-stream';
  assert.equal(isStream, logged.length > 0, 'JSON when nothing is logged, a stream otherwise');
  return logged.map(({ params }) => String((params as { level: string }).level));
}

for (const version of ['2025-03-26', '2025-06-18', '2025-11-25']) {
  test(`row 49 row 50 finding 12 a session of ${version} hears of the log what it asked for, and nothing before`, async (t) => {
    const { url, bucket } = await serveFor(t, logging());
    const other = await serveFor(t, logging(), { bucket });
    const session = { 'Mcp-Session-Id': await begin(url, version) };
    const call = (at: string, more = session) => send(at, rpc('tools/call', { name: 'log' }), more);
    assert.deepEqual(levelsIn(await call(url)), []);
    for (const [index, level] of logLevels.entries()) {
      const set = await send(url, rpc('logging/setLevel', { level }), session);
      assert.deepEqual(set.body, { jsonrpc: '2.0', id: 1, result: {} });
      // Every process knows it, and no other session.
      for (const at of [url, other.url]) assert.deepEqual(levelsIn(await call(at)), logLevels.slice(index));
    }
    for (const level of ['loud', 'DEBUG', '', null, 7]) {
      const refused = await send(url, rpc('logging/setLevel', { level }), session);
      assert.equal(errorOf(refused.body)['code'], -32602);
    }
    assert.deepEqual(levelsIn(await call(url)), ['emergency']);
    assert.deepEqual(levelsIn(await call(url, { 'Mcp-Session-Id': await begin(url, version) })), []);
  });
}

test('row 49 row 50 finding 13 a request of 2026-07-28 hears of the log what it asks for itself, and an odd level is refused', async (t) => {
  const { url } = await serveFor(t, logging());
  const call = (more = {}) =>
    send(url, rpc('tools/call', { name: 'log', _meta: meta({}, more) }), modern('tools/call', 'log'));
  const key = 'io.modelcontextprotocol/logLevel';
  assert.deepEqual(levelsIn(await call()), []);
  for (const [index, level] of logLevels.entries()) {
    assert.deepEqual(levelsIn(await call({ [key]: level })), logLevels.slice(index));
  }
  for (const level of ['loud', 'DEBUG', '', null, 7]) {
    assert.equal(errorOf((await call({ [key]: level })).body)['code'], -32602);
  }
  assert.deepEqual(levelsIn(await call()), []);
});
