import assert from 'node:assert/strict';
import test from 'node:test';
import { text } from '../../support/dispatch.ts';
import {
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
} from '../../support/wire.ts';
import type { Body } from '../../support/wire.ts';

const say = (words: string, id: number): Body => rpc('tools/call', { name: 'echo', arguments: { say: words } }, id);

test('T-21 T-28 a session works without a version header', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-03-26') };
  assert.equal((await send(url, rpc('tools/list'), session)).status, 200);
  assert.deepEqual(resultOf((await send(url, rpc('ping'), session)).body), {});
});

test('T-22 MODE-07 every request of a batch is answered, and nothing else', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-03-26') };
  const batch = [say('a', 1), notification('notifications/initialized'), say('b', 2), rpc('foo/bar', {}, 3)];
  for (const more of [{}, { 'MCP-Protocol-Version': '2025-03-26' }] as Record<string, string>[]) {
    const { status, headers, messages } = await send(url, batch, { ...session, ...more });
    assert.equal(status, 200);
    assert.equal(headers.get('content-type'), 'application/json');
    const sorted = [...messages].sort((x, y) => Number(x['id']) - Number(y['id']));
    assert.deepEqual(sorted.slice(0, 2).map(resultOf), [text('a'), text('b')]);
    assert.equal(errorOf(sorted[2] ?? {})['code'], -32601);
    assert.equal(messages.length, 3);
  }
});

test('T-22 a batch in which a handler sends something first is a stream', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-03-26') };
  const batch = [say('a', 1), rpc('tools/call', { name: 'progress', arguments: { steps: 1 } }, 2)];
  const { headers, messages } = await send(url, batch, session);
  assert.equal(headers.get('content-type'), 'text/event-stream');
  assert.equal(messages.length, 3);
});

test('T-23 T-24 a batch without requests gets 202', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-03-26') };
  const notifications = [notification('notifications/initialized'), notification('notifications/cancelled')];
  const responses = [
    { jsonrpc: '2.0', id: 'x', result: {} },
    { jsonrpc: '2.0', id: 'y', result: {} },
  ];
  for (const batch of [notifications, responses]) {
    const { status, text: nothing } = await send(url, batch, session);
    assert.deepEqual([status, nothing], [202, '']);
  }
});

test('T-25 initialize in a batch is refused and leaves no session', async (t) => {
  const { url, bucket } = await start(t);
  const { status, body } = await send(url, [initialize('2025-03-26')]);
  assert.deepEqual([status, errorOf(body)['code']], [400, -32600]);
  assert.equal(await keysIn(bucket), 0);
});

test('T-31 T-108 an array is refused in every other revision, and nothing of it runs', async (t) => {
  const { url, dispatch } = await start(t);
  const later = { 'Mcp-Session-Id': await begin(url, '2025-06-18') };
  const old = { 'Mcp-Session-Id': await begin(url, '2025-03-26') };
  const modernCall = rpc('tools/call', { name: 'echo', _meta: meta() });
  const refused = [
    await send(url, [say('a', 1)], later),
    await send(url, [say('a', 1)], { ...later, 'MCP-Protocol-Version': '2025-03-26' }),
    await send(url, [say('a', 1)], { ...old, 'MCP-Protocol-Version': '2025-11-25' }),
    await send(url, [modernCall], modern('tools/call', 'echo')),
    await send(url, [modernCall], old),
    await send(url, [say('a', 1), 7], old),
    await send(
      url,
      Array.from({ length: 101 }, (_, id) => say('a', id)),
      old,
    ),
  ];
  for (const { status, body } of refused) assert.deepEqual([status, errorOf(body)['code']], [400, -32600]);
  assert.equal(dispatch.seen.length, 0);
});

test('a batch names a session as every message does', async (t) => {
  const { url } = await start(t);
  assert.equal((await send(url, [rpc('ping')])).status, 400);
  assert.equal((await send(url, [rpc('ping')], { 'Mcp-Session-Id': 'A'.repeat(32) })).status, 404);
});

test('T-27 no question can be put to this revision', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-03-26', { elicitation: {} }) };
  const { body } = await send(url, rpc('tools/call', { name: 'whoami' }), session);
  assert.equal((resultOf(body)['structuredContent'] as Body)['canPush'], false);
});
