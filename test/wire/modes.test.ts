import assert from 'node:assert/strict';
import test from 'node:test';
import { text } from '../support/dispatch.ts';
import {
  base,
  begin,
  errorOf,
  initialize,
  keysIn,
  meta,
  modern,
  notification,
  resultOf,
  rpc,
  send,
  start,
} from '../support/wire.ts';
import type { Body } from '../support/wire.ts';

const discover = rpc('server/discover', { _meta: meta() }, 'd');
const handshakes = ['2025-11-25', '2025-06-18', '2025-03-26'];

test('T-150 both eras live on one endpoint, and only the handshake mints an id', async (t) => {
  const { url } = await start(t);
  for (let round = 0; round < 2; round += 1) {
    const discovered = await send(url, discover, modern('server/discover'));
    assert.deepEqual([discovered.status, discovered.headers.get('mcp-session-id')], [200, null]);
    assert.ok(await begin(url));
  }
});

test('a probe for the new era leaves nothing behind', async (t) => {
  for (const mode of ['stateful', 'stateful-for-initialize', 'stateless'] as const) {
    const { url, bucket } = await start(t, { mode });
    await send(url, discover, modern('server/discover'));
    await send(url, rpc('server/discover'), { 'MCP-Protocol-Version': '2026-07-28' });
    assert.equal(await keysIn(bucket), 0);
  }
});

test('T-151 T-152 MODE-41 MODE-42 stateful refuses the revision without sessions, and names the others', async (t) => {
  const { url } = await start(t, { mode: 'stateful' });
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (const more of [{}, session]) {
    const refused = await send(url, discover, { ...modern('server/discover'), ...more });
    assert.deepEqual([refused.status, errorOf(refused.body)['code'], refused.body['id']], [400, -32022, 'd']);
    assert.deepEqual(errorOf(refused.body)['data'], { supported: handshakes, requested: '2026-07-28' });
  }
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
  assert.equal(resultOf((await send(url, initialize(handshakes[0]))).body)['protocolVersion'], handshakes[0]);
});

test('MODE-62 MODE-11 stateful refuses notifications and responses of that revision alike', async (t) => {
  const { url } = await start(t, { mode: 'stateful' });
  const headers = { 'MCP-Protocol-Version': '2026-07-28' };
  for (const body of [{ jsonrpc: '2.0', id: 1, result: {} }, notification('notifications/cancelled')]) {
    const refused = await send(url, body, headers);
    assert.deepEqual([refused.status, errorOf(refused.body)['code']], [400, -32022]);
    assert.equal('id' in refused.body, false);
  }
});

test('T-153 MODE-20 MODE-29 MODE-30 MODE-31 MODE-32 stateless answers a handshake without a session', async (t) => {
  const { url, bucket } = await start(t, { mode: 'stateless' });
  for (const version of handshakes) {
    const { status, headers, body } = await send(url, initialize(version));
    assert.deepEqual([status, headers.get('mcp-session-id')], [200, null]);
    assert.equal(resultOf(body)['protocolVersion'], version);
    assert.deepEqual((resultOf(body)['capabilities'] as Body)['tools'], {});
  }
  for (const method of ['GET', 'DELETE', 'PUT']) {
    for (const more of [{}, { 'Mcp-Session-Id': 'x' }, { 'MCP-Protocol-Version': '2026-07-28' }]) {
      const response = await fetch(url, { method, headers: { ...base, ...more } });
      assert.equal(response.status, 405);
      assert.equal(response.headers.get('allow'), 'POST');
    }
  }
  assert.equal(await keysIn(bucket), 0);
});

test('MODE-23 MODE-24 MODE-25 MODE-27 stateless ignores a session id and needs no handshake', async (t) => {
  const { url } = await start(t, { mode: 'stateless' });
  for (const more of [{}, { 'Mcp-Session-Id': 'x' }] as Record<string, string>[]) {
    const initialized = await send(url, initialize(), more);
    assert.deepEqual([initialized.status, initialized.headers.get('mcp-session-id')], [200, null]);
    const listed = await send(url, rpc('tools/list'), more);
    assert.deepEqual([listed.status, listed.headers.get('mcp-session-id')], [200, null]);
    assert.equal((await send(url, notification('notifications/initialized'), more)).status, 202);
    // MODE-28
    assert.equal((await send(url, { jsonrpc: '2.0', id: 1, result: {} }, more)).status, 202);
  }
});

test('MODE-10 stateless names only the revision that was made for it', async (t) => {
  const { url } = await start(t, { mode: 'stateless' });
  const refused = await send(url, rpc('tools/list', {}, 5), { 'MCP-Protocol-Version': '1999-01-01' });
  assert.deepEqual([refused.status, errorOf(refused.body)['code'], refused.body['id']], [400, -32022, 5]);
  assert.deepEqual(errorOf(refused.body)['data'], { supported: ['2026-07-28'], requested: '1999-01-01' });
  const { supportedVersions } = resultOf((await send(url, discover, modern('server/discover'))).body);
  assert.deepEqual(supportedVersions, ['2026-07-28']);
});

test('MODE-36 MODE-37 stateless: ping is answered, a log level is for nothing', async (t) => {
  const { url } = await start(t, { mode: 'stateless' });
  assert.deepEqual(resultOf((await send(url, rpc('ping'))).body), {});
  assert.deepEqual(resultOf((await send(url, rpc('logging/setLevel', { level: 'debug' }))).body), {});
  assert.equal((await send(url, rpc('tools/call', { name: 'log' }))).messages.length, 1);
});

test('MODE-33 stateless: a handler sees that nothing can be asked', async (t) => {
  const { url } = await start(t, { mode: 'stateless' });
  const { body } = await send(url, rpc('tools/call', { name: 'whoami' }), { 'MCP-Protocol-Version': '2025-11-25' });
  assert.deepEqual(resultOf(body)['structuredContent'], {
    clientInfo: null,
    clientCapabilities: {},
    revision: '2025-11-25',
    canPush: false,
    owner: null,
  });
});

test('MODE-39 stateless: a client that goes away cancels its call, for nobody can come back for it', async (t) => {
  const running = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const { url } = await start(t, {
    mode: 'stateless',
    tools: {
      slow: ({ signal }) =>
        new Promise((resolve) => {
          signal.addEventListener('abort', () => {
            stopped.resolve();
            resolve(text('too late'));
          });
          running.resolve();
        }),
    },
  });
  const abort = new AbortController();
  const init = { method: 'POST', headers: base, body: JSON.stringify(rpc('tools/call', { name: 'slow' })) };
  const answer = fetch(url, { ...init, signal: abort.signal });
  await running.promise;
  abort.abort();
  await assert.rejects(answer);
  await stopped.promise;
});

test('MODE-68 server/discover without metadata belongs to no revision with a handshake', async (t) => {
  const stateless = await start(t, { mode: 'stateless' });
  const unknown = await send(stateless.url, rpc('server/discover'), { 'MCP-Protocol-Version': '2025-11-25' });
  assert.deepEqual([unknown.status, errorOf(unknown.body)['code']], [200, -32601]);
  const hybrid = await start(t);
  const nameless = await send(hybrid.url, rpc('server/discover'), { 'MCP-Protocol-Version': '2025-11-25' });
  assert.deepEqual([nameless.status, errorOf(nameless.body)['code']], [400, -32600]);
});
