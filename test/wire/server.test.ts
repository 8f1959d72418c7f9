import assert from 'node:assert/strict';
import test from 'node:test';
import { Registry, serve } from '../../host/library.ts';
import { Gate, text } from '../support/dispatch.ts';
import type { Tool } from '../support/dispatch.ts';
import { begin, errorOf, Events, open, resultOf, rpc, send, start } from '../support/wire.ts';

const slow = rpc('tools/call', { name: 'slow' }, 's');

function slowTool(): { tool: Tool; running: Gate; gate: Gate } {
  const running = new Gate();
  const gate = new Gate();
  const tool: Tool = async () => {
    running.open();
    await gate.opened;
    return text('finished');
  };
  return { tool, running, gate };
}

test('closing a served registry again waits for the first time', async () => {
  const registry = new Registry({ name: 'closed', version: '1' });
  const server = await serve(registry, { bucket: 'memory:', port: 0 });
  await Promise.all([server.close(), server.close()]);
  await server.close();
  await assert.rejects(fetch(server.url), TypeError);
});

test('MODE-131 closing ends streams and idle connections, and waits for running calls', async (t) => {
  const { tool, running, gate } = slowTool();
  const { url, server } = await start(t, { tools: { slow: tool } });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session);
  const answer = send(url, slow, session);
  await running.opened;
  const closed = server.close();
  assert.equal(await stream.next(), undefined);
  await assert.rejects(send(url, rpc('ping'), session));
  gate.open();
  const { status, headers, body } = await answer;
  assert.deepEqual([status, headers.get('connection')], [200, 'close']);
  assert.deepEqual(resultOf(body), text('finished'));
  await closed;
  await server.close();
});

test('a call that does not end in time is answered 503 when the server closes', async (t) => {
  const { tool, running, gate } = slowTool();
  const { url, server } = await start(t, { drainTimeout: 1, tools: { slow: tool } });
  t.after(() => gate.open());
  const session = { 'Mcp-Session-Id': await begin(url) };
  const answer = send(url, slow, session);
  await running.opened;
  await server.close();
  const { status, body } = await answer;
  assert.deepEqual([status, errorOf(body)['code'], body['id']], [503, -32603, 's']);
});

test('the sessions of a closed server are served by the next one', async (t) => {
  const one = await start(t);
  const session = { 'Mcp-Session-Id': await begin(one.url) };
  await send(one.url, rpc('tools/call', { name: 'bump' }), session);
  await one.server.close();
  const two = await start(t, { store: one.bucket });
  const all = await Promise.all(
    Array.from({ length: 8 }, () => send(two.url, rpc('tools/call', { name: 'bump' }), session)),
  );
  const counts = all.map(({ body }) => Number((resultOf(body)['content'] as { text: string }[])[0]?.text));
  assert.deepEqual(
    counts.sort((a, b) => a - b),
    [2, 3, 4, 5, 6, 7, 8, 9],
  );
});

test('a port that is taken is an error of its own', async (t) => {
  const { server } = await start(t);
  await assert.rejects(start(t, { port: server.port }), { code: 'EADDRINUSE' });
});

test('a reader that is too slow is cut off, and its call goes on', async (t) => {
  const done = new Gate();
  const flood: Tool = async (call) => {
    const filling = 'x'.repeat(256 * 1024);
    for (let sent = 0; sent < 200; sent += 1) {
      call.notify({ method: 'notifications/message', params: { filling } });
      await new Promise((resolve) => setImmediate(resolve));
    }
    done.open();
    return text('finished');
  };
  const { url, server } = await start(t, { tools: { flood } });
  const id = await begin(url);
  const body = JSON.stringify(rpc('tools/call', { name: 'flood' }));
  const socket = await open(server.port);
  socket.on('error', () => undefined);
  socket.pause();
  socket.write(
    [
      'POST /mcp HTTP/1.1',
      'Host: localhost',
      'Content-Type: application/json',
      'Accept: */*',
      `Mcp-Session-Id: ${id}`,
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\r\n'),
  );
  await done.opened;
  const ended = new Promise((resolve) => socket.once('close', resolve));
  let received = 0;
  socket.on('data', (chunk) => (received += chunk.length)).resume();
  await ended;
  assert.ok(received < 30 * 1024 * 1024);
  assert.equal((await send(url, rpc('ping'), { 'Mcp-Session-Id': id })).status, 200);
});
