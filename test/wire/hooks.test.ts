import assert from 'node:assert/strict';
import test from 'node:test';
import type { Beginning } from '../../host/beginning.ts';
import { RpcError } from '../../host/call.ts';
import type { Mode } from '../../host/revisions/all.ts';
import { base, begin, errorOf, initialize, keysIn, meta, modern, resultOf, rpc, send, start } from '../support/wire.ts';

const list = rpc('tools/list', { _meta: meta() });

async function counted(t: test.TestContext, mode: Mode) {
  const heard: Beginning[] = [];
  const started = await start(t, { mode, onBegin: (beginning) => void heard.push(beginning) });
  return { ...started, heard };
}

test('MODE-127 stateless runs the hook once for each request', async (t) => {
  const { url, heard } = await counted(t, 'stateless');
  for (let round = 0; round < 5; round += 1) assert.equal((await send(url, rpc('tools/list'))).status, 200);
  assert.deepEqual(
    heard.map(({ session, revision }) => [session, revision]),
    Array(5).fill([null, '2025-03-26']),
  );
});

test('MODE-128 stateful runs the hook once for each session', async (t) => {
  const { url, heard } = await counted(t, 'stateful');
  const session = { 'Mcp-Session-Id': await begin(url, '2025-06-18', { roots: {} }) };
  for (let round = 0; round < 5; round += 1) await send(url, rpc('tools/list'), session);
  const stream = await fetch(url, { headers: { ...base, ...session } });
  await send(url, '', session, 'DELETE');
  await stream.text();
  assert.equal(heard.length, 1);
  assert.equal(heard[0]?.session?.id, session['Mcp-Session-Id']);
  assert.equal(heard[0]?.revision, '2025-06-18');
  assert.deepEqual([heard[0]?.clientInfo?.name, heard[0]?.clientCapabilities], ['wire', { roots: {} }]);
});

test('MODE-129 the hybrid runs the hook for a session once, and for each request of 2026-07-28', async (t) => {
  const { url, heard } = await counted(t, 'stateful-for-initialize');
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (let round = 0; round < 2; round += 1) await send(url, rpc('tools/list'), session);
  for (let round = 0; round < 2; round += 1) await send(url, list, modern('tools/list'));
  const params = { _meta: meta(), notifications: { toolsListChanged: true } };
  const headers = { ...base, ...modern('subscriptions/listen') };
  const body = JSON.stringify(rpc('subscriptions/listen', params));
  const listening = await fetch(url, { method: 'POST', headers, body });
  await listening.body?.cancel();
  assert.deepEqual(
    heard.map(({ revision, clientInfo }) => [revision, clientInfo?.name]),
    [['2025-11-25', 'wire'], ...Array(3).fill(['2026-07-28', 'wire'])],
  );
});

test('MODE-130 a request that is refused does not reach the hook', async (t) => {
  const { url, heard } = await counted(t, 'stateful-for-initialize');
  await send(url, list, { ...modern('tools/list'), 'Mcp-Method': 'tools/call' });
  await send(url, rpc('initialize', {}));
  await send(url, rpc('tools/list'), { 'Mcp-Session-Id': 'unknown' });
  await send(url, '{');
  assert.equal(heard.length, 0);
});

test('the hook gives a session its first values, before anybody has the id', async (t) => {
  const { url, sessions } = await start(t, { onBegin: async ({ session }) => await session?.set('plan', 'free') });
  const session = await sessions.open('session', { namespace: '', owner: undefined }, await begin(url));
  assert.equal(session?.get('plan'), 'free');
});

test('a session that the hook refuses leaves nothing behind', async (t) => {
  const { url, bucket, events } = await start(t, {
    onBegin: ({ clientInfo, session }) => {
      if (session === null) throw new Error('out of order');
      throw new RpcError(-32010, 'Upgrade first', { client: clientInfo?.version ?? '' });
    },
  });
  const refused = await send(url, initialize());
  assert.equal(refused.headers.get('mcp-session-id'), null);
  assert.deepEqual(errorOf(refused.body), { code: -32010, message: 'Upgrade first', data: { client: '0.1' } });
  const failed = await send(url, list, modern('tools/list'));
  assert.deepEqual([errorOf(failed.body)['code'], resultOf(failed.body)], [-32603, undefined]);
  assert.equal(failed.text.includes('out of order'), false);
  assert.ok(events.some(({ level, event }) => level === 'error' && event === 'request failed'));
  assert.equal(await keysIn(bucket), 0);
});
