import type { Json } from '../../../host/session.ts';
import assert from 'node:assert/strict';
import test from 'node:test';
import { begin, errorOf, Events, resultOf, rpc, send, start } from '../../support/wire.ts';
import type { Body } from '../../support/wire.ts';

for (const version of ['2025-06-18', '2025-11-25']) {
  test(`T-35 fault 082 a question to a ${version} client travels on the stream of its call`, async (t) => {
    const { url } = await start(t);
    const session = { 'Mcp-Session-Id': await begin(url, version, { elicitation: {} }) };
    const headers = { ...session, 'MCP-Protocol-Version': version };
    const stream = await Events.open(url, headers, rpc('tools/call', { name: 'ask' }, 1));
    const { id = null, method, jsonrpc } = (await stream.next()) ?? {};
    assert.deepEqual([jsonrpc, method], ['2.0', 'elicitation/create']);
    const answered = await send(url, { jsonrpc: '2.0', id, result: { action: 'decline' } }, headers);
    assert.equal(answered.status, 202);
    const response = (await stream.next()) ?? {};
    assert.equal(response['id'], 1);
    assert.match(JSON.stringify(resultOf(response)), /decline/);
    assert.equal(await stream.next(), undefined);
  });
}

test('row 63 row 64 an answer through another process is stored, and found by who looks again', async (t) => {
  const one = await start(t);
  const two = await start(t, { store: one.bucket });
  const id = await begin(one.url, '2025-06-18', { elicitation: {} });
  const session = { 'Mcp-Session-Id': id };
  const stream = await Events.open(one.url, session, rpc('tools/call', { name: 'ask' }, 1));
  const question = String((await stream.next())?.['id']);
  const answered = await send(two.url, { jsonrpc: '2.0', id: question, result: { action: 'cancel' } }, session);
  assert.equal(answered.status, 202);
  const scope = { namespace: '', owner: undefined };
  const stored = await (await one.sessions.open('session', scope, id))?.question(question);
  assert.deepEqual(stored?.answer, { result: { action: 'cancel' } });
  // The hub knows nothing of it: it only wakes, and then the answer is there.
  one.hub.wake(question);
  assert.match(JSON.stringify(await stream.next()), /cancel/);
});

test('an answer that does not fit its question is refused, and a fitting one is taken after it', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-06-18', { elicitation: {} }) };
  const stream = await Events.open(url, session, rpc('tools/call', { name: 'ask' }, 1));
  const { id = null } = (await stream.next()) ?? {};
  const misfit = await send(url, { jsonrpc: '2.0', id, result: { action: 'perhaps' } }, session);
  assert.equal(misfit.status, 400);
  assert.equal((await send(url, { jsonrpc: '2.0', id, result: { action: 'cancel' } }, session)).status, 202);
  assert.match(JSON.stringify(await stream.next()), /cancel/);
});

test('a session that ends while a question is open ends the call', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-06-18', { elicitation: {} }) };
  const stream = await Events.open(url, session, rpc('tools/call', { name: 'ask' }, 1));
  const { id = null } = (await stream.next()) ?? {};
  await send(url, '', session, 'DELETE');
  // An answer, so that nobody waits for one until his patience ends.
  const answer = (await stream.next()) ?? {};
  assert.deepEqual([answer['id'], errorOf(answer)['code']], [1, -32603]);
  assert.equal(await stream.next(), undefined);
  assert.equal((await send(url, { jsonrpc: '2.0', id, result: { action: 'cancel' } }, session)).status, 404);
});

test('T-36 what a client declared is what a handler sees', async (t) => {
  const { url } = await start(t);
  for (const capabilities of [
    {},
    { elicitation: {} },
    { elicitation: true },
    { elicitation: [], roots: null },
  ] as Json[]) {
    const session = { 'Mcp-Session-Id': await begin(url, '2025-06-18', capabilities) };
    const { body } = await send(url, rpc('tools/call', { name: 'whoami' }), session);
    assert.deepEqual((resultOf(body)['structuredContent'] as Body)['clientCapabilities'], capabilities);
  }
});
