import assert from 'node:assert/strict';
import test from 'node:test';
import { Gate, text } from '../../support/dispatch.ts';
import type { Tool } from '../../support/dispatch.ts';
import { begin, errorOf, Events, notification, open, resultOf, rpc, send, start } from '../../support/wire.ts';
import type { Body } from '../../support/wire.ts';

const changed = { method: 'notifications/tools/list_changed' };
const call = (name: string, more: Body = {}, id: string | number = 1): Body =>
  rpc('tools/call', { name, arguments: more }, id);

/** A tool that says that it runs, and ends when it is told to. */
function gated(): { tool: Tool; running: Gate; gate: Gate; aborted: Gate } {
  const running = new Gate();
  const gate = new Gate();
  const aborted = new Gate();
  const tool: Tool = async ({ signal }) => {
    signal.addEventListener('abort', () => aborted.open());
    running.open();
    await Promise.race([gate.opened, aborted.opened]);
    return text('finished');
  };
  return { tool, running, gate, aborted };
}

test('T-52 MODE-91 row 77 a GET stream begins at once and stays open', async (t) => {
  const { url } = await start(t);
  const id = await begin(url);
  const stream = await Events.open(url, { 'Mcp-Session-Id': id, 'Accept-Encoding': 'gzip, br' });
  const { status, headers } = stream.response;
  assert.equal(status, 200);
  assert.equal(headers.get('content-type'), 'text/event-stream');
  assert.equal(headers.get('content-encoding'), null);
  assert.equal(headers.get('x-accel-buffering'), 'no');
  assert.match(headers.get('cache-control') ?? '', /no-transform/);
  assert.equal(headers.get('mcp-session-id'), id);
  assert.equal(await stream.raw(), ':');
  stream.leave();
});

test('MODE-93 a GET that does not accept events gets 406', async (t) => {
  const { url } = await start(t);
  const headers = { 'Mcp-Session-Id': await begin(url), Accept: 'application/json' };
  assert.equal((await send(url, '', headers, 'GET')).status, 406);
});

test('T-53 MODE-94 MODE-95 MODE-97 of several GET streams only the newest that works gets a message', async (t) => {
  const { url, hub } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const older = await Events.open(url, session);
  const newer = await Events.open(url, session);
  hub.publish(changed);
  assert.deepEqual(await newer.next(), { jsonrpc: '2.0', ...changed });
  newer.leave();
  // The server hears of it when it can: until then the message may go where it is lost.
  const heard = older.next();
  const again = setInterval(() => hub.publish(changed), 5);
  assert.deepEqual(await heard, { jsonrpc: '2.0', ...changed });
  clearInterval(again);
  const third = await Events.open(url, session);
  hub.publish(changed);
  assert.deepEqual(await third.next(), { jsonrpc: '2.0', ...changed });
  third.leave();
  older.leave();
});

test('a message for one session reaches no other', async (t) => {
  const { url, hub } = await start(t);
  const [a, b] = [await begin(url), await begin(url)];
  const [ofA, ofB] = [await Events.open(url, { 'Mcp-Session-Id': a }), await Events.open(url, { 'Mcp-Session-Id': b })];
  hub.publish({ method: 'notifications/resources/updated', params: { uri: 'a:a' } }, a);
  hub.publish(changed);
  assert.equal((await ofA.next())?.['method'], 'notifications/resources/updated');
  assert.equal((await ofB.next())?.['method'], 'notifications/tools/list_changed');
  ofA.leave();
  ofB.leave();
});

test('T-54 the response of a call never shows up on the GET stream', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session);
  const { messages } = await send(url, call('progress', { steps: 2 }), session);
  assert.equal(messages.length, 3);
  await send(url, '', session, 'DELETE');
  assert.equal(await stream.next(), undefined);
});

test('T-55 MODE-35 what a handler sends comes before its response, on the same stream, which then ends', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const params = { name: 'progress', arguments: { steps: 3 }, _meta: { progressToken: 'p' } };
  const { headers, messages } = await send(url, rpc('tools/call', params), session);
  assert.equal(headers.get('content-type'), 'text/event-stream');
  assert.deepEqual(
    messages.slice(0, 3).map(({ params: each }) => each),
    [1, 2, 3].map((progress) => ({ progressToken: 'p', progress })),
  );
  assert.deepEqual(messages[3], { jsonrpc: '2.0', id: 1, result: text('done') });
  assert.equal(messages.length, 4);
});

test('T-60 MODE-89 row 51 finding 9 a client that goes away does not stop its call', async (t) => {
  const { tool, running, gate } = gated();
  const finished = new Gate();
  const tools = {
    slow: async (...given: Parameters<Tool>) => {
      const result = await tool(...given);
      finished.open();
      assert.equal(given[0].signal.aborted, false);
      return result;
    },
  };
  const { url, server } = await start(t, { tools });
  const id = await begin(url);
  const socket = await open(server.port);
  const body = JSON.stringify(call('slow'));
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
  await running.opened;
  socket.resetAndDestroy();
  assert.equal((await send(url, rpc('ping'), { 'Mcp-Session-Id': id })).status, 200);
  gate.open();
  await finished.opened;
});

test('T-61 MODE-88 row 52 finding 10 fault 098 a cancelled call ends without a response, its stream with it', async (t) => {
  const { tool, running, aborted } = gated();
  const { url } = await start(t, { tools: { slow: tool } });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const answer = send(url, call('slow', {}, 0), session);
  await running.opened;
  const cancelled = await send(url, notification('notifications/cancelled', { requestId: 0 }), session);
  assert.equal(cancelled.status, 202);
  const { status, messages } = await answer;
  assert.equal(status, 200);
  assert.deepEqual(messages, []);
  await aborted.opened;
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
});

test('a call that was streaming ends its stream when it is cancelled', async (t) => {
  const { tool, running } = gated();
  const tools = {
    slow: (...given: Parameters<Tool>) => {
      given[0].notify({ method: 'notifications/message', params: {} });
      return tool(...given);
    },
  };
  const { url } = await start(t, { tools });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session, call('slow', {}, 'c'));
  assert.equal((await stream.next())?.['method'], 'notifications/message');
  await running.opened;
  await send(url, notification('notifications/cancelled', { requestId: 'c' }), session);
  assert.equal(await stream.next(), undefined);
});

test('T-62 fault 096 fault 099 a cancellation means only calls of its own session whose id has the same JSON type', async (t) => {
  const { tool, running, gate, aborted } = gated();
  const { url } = await start(t, { tools: { slow: tool } });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const other = { 'Mcp-Session-Id': await begin(url) };
  const answer = send(url, call('slow', {}, 5), session);
  await running.opened;
  for (const [requestId, from] of [
    [5, other],
    ['5', session],
    [6, session],
    [null, session],
  ] as const) {
    assert.equal((await send(url, notification('notifications/cancelled', { requestId }), from)).status, 202);
  }
  assert.equal((await send(url, notification('notifications/cancelled'), session)).status, 202);
  gate.open();
  assert.deepEqual(resultOf((await answer).body), text('finished'));
  let heard = false;
  void aborted.opened.then(() => (heard = true));
  await Promise.resolve();
  assert.equal(heard, false);
});

test('MODE-107 MODE-108 finding 20 DELETE ends the GET streams and the running calls of the session', async (t) => {
  const { tool, running, aborted } = gated();
  const { url } = await start(t, { tools: { slow: tool } });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session);
  const answer = send(url, call('slow', {}, 9), session);
  await running.opened;
  assert.equal((await send(url, '', session, 'DELETE')).status, 204);
  assert.equal(await stream.next(), undefined);
  // Not 404, which would say that nothing was done: clients send such a request again in a new session.
  const { status, body } = await answer;
  assert.deepEqual([status, body['id']], [200, 9]);
  assert.deepEqual(errorOf(body), { code: -32603, message: 'The session ended while the call ran' });
  await aborted.opened;
});

test('a session that a tool terminates ends its streams', async (t) => {
  const { url } = await start(t, {
    tools: {
      leave: async ({ session }) => {
        await session?.terminate('done');
        return text('bye');
      },
    },
  });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session);
  await send(url, call('leave'), session);
  assert.equal(await stream.next(), undefined);
  assert.equal((await send(url, rpc('ping'), session)).status, 404);
});

test('MODE-84 fault 081 fault 084 a question goes out on the stream of its call, and a posted response wakes it', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-11-25', { elicitation: {} }) };
  const other = await Events.open(url, session);
  const stream = await Events.open(url, session, call('ask', {}, 'a'));
  const question = await stream.next();
  assert.equal(question?.['method'], 'elicitation/create');
  const id = question['id'] ?? null;
  const answered = await send(url, { jsonrpc: '2.0', id, result: { action: 'accept', content: {} } }, session);
  assert.equal(answered.status, 202);
  const response = await stream.next();
  assert.equal(response?.['id'], 'a');
  assert.match(JSON.stringify(response), /accept/);
  assert.equal(await stream.next(), undefined);
  // T-67: the same response once more is nobody's.
  const late = await send(url, { jsonrpc: '2.0', id, result: { action: 'decline' } }, session);
  assert.equal(late.status, 202);
  await send(url, '', session, 'DELETE');
  assert.equal(await other.next(), undefined);
});

test('MODE-87 T-67 a response to no question is taken and ignored', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (const id of ['none', 7]) {
    assert.equal((await send(url, { jsonrpc: '2.0', id, result: {} }, session)).status, 202);
    assert.equal((await send(url, { jsonrpc: '2.0', id, error: { code: -1, message: 'no' } }, session)).status, 202);
  }
});

test('MODE-38 MODE-90 the same id twice at once is answered on the connection that asked', async (t) => {
  const gate = new Gate();
  let running = 0;
  const both = new Gate();
  const tools = {
    slow: async (...[, { say = '' }]: Parameters<Tool>) => {
      running += 1;
      if (running === 4) both.open();
      await gate.opened;
      return text(String(say));
    },
  };
  const { url } = await start(t, { tools });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const other = { 'Mcp-Session-Id': await begin(url) };
  const asked = [
    send(url, call('slow', { say: 'one' }, 1), session),
    send(url, call('slow', { say: 'two' }, 1), session),
    send(url, call('slow', { say: 'text' }, '1'), session),
    send(url, call('slow', { say: 'other' }, 1), other),
  ];
  await both.opened;
  gate.open();
  const answers = await Promise.all(asked);
  assert.deepEqual(
    answers.map(({ body }) => [body['id'], resultOf(body)]),
    [
      [1, text('one')],
      [1, text('two')],
      ['1', text('text')],
      [1, text('other')],
    ],
  );
});

test('a client that aborts at any moment harms nobody', async (t) => {
  const { url, server } = await start(t, { keepAlive: 5 });
  const id = await begin(url);
  const session = { 'Mcp-Session-Id': id };
  const body = JSON.stringify(call('progress', { steps: 200 }));
  const post = [
    'POST /mcp HTTP/1.1',
    'Host: localhost',
    'Content-Type: application/json',
    'Accept: */*',
    `Mcp-Session-Id: ${id}`,
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n');
  const get = `GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nMcp-Session-Id: ${id}\r\n\r\n`;
  for (let round = 0; round < 60; round += 1) {
    const socket = await open(server.port);
    socket.on('error', () => undefined);
    const bytes = round % 2 === 0 ? post : get;
    socket.write(round % 3 === 0 ? bytes.slice(0, -10) : bytes);
    if (round % 3 === 1) await new Promise((resolve) => socket.once('data', resolve));
    socket.resetAndDestroy();
  }
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
});

test('D-17 fault 059 row 77 signs of life keep a silent stream and a silent call open', async (t) => {
  const { tool, gate } = gated();
  const { url } = await start(t, { keepAlive: 5, tools: { slow: tool } });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session);
  for (let comments = 0; comments < 3; comments += 1) assert.equal(await stream.raw(), ':');
  const silent = await Events.open(url, session, call('slow'));
  assert.equal(silent.response.headers.get('content-type'), 'text/event-stream');
  assert.match((await silent.raw()) ?? '', /^id: /);
  for (let comments = 0; comments < 3; comments += 1) assert.equal(await silent.raw(), ':');
  gate.open();
  assert.deepEqual(resultOf((await silent.next()) ?? {}), text('finished'));
  stream.leave();
});

test('T-68 MODE-36 no task is made of a call', async (t) => {
  const { url } = await start(t);
  const params = { name: 'echo', arguments: { say: 'hi' }, task: { ttl: 1000 } };
  const { body } = await send(url, rpc('tools/call', params), { 'Mcp-Session-Id': await begin(url) });
  assert.deepEqual(resultOf(body), text('hi'));
});
