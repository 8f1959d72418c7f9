import assert from 'node:assert/strict';
import test from 'node:test';
import { SwitchedBucket } from '../../support/buckets.ts';
import {
  begin,
  errorOf,
  Events,
  initialize,
  keysIn,
  notification,
  resultOf,
  rpc,
  send,
  start,
} from '../../support/wire.ts';
import type { Body } from '../../support/wire.ts';

const bump = rpc('tools/call', { name: 'bump' });

function words(body: Body): string {
  const [first] = resultOf(body)['content'] as { text: string }[];
  return first?.text ?? '';
}

const versions = [
  { name: 'T-20 MODE-20', asked: '2025-03-26', agreed: '2025-03-26' },
  { name: 'T-30 MODE-20', asked: '2025-06-18', agreed: '2025-06-18' },
  { name: 'T-40 MODE-70', asked: '2025-11-25', agreed: '2025-11-25' },
  { name: 'T-41', asked: '2099-01-01', agreed: '2025-11-25' },
  { name: 'MODE-21', asked: '1999-01-01', agreed: '2025-11-25' },
  { name: 'T-42 MODE-22 MODE-82', asked: '2026-07-28', agreed: '2025-11-25' },
];

for (const { name, asked, agreed } of versions) {
  test(`${name} initialize asking for ${asked} agrees on ${agreed}`, async (t) => {
    const { url } = await start(t);
    const { status, headers, body } = await send(url, initialize(asked));
    assert.equal(status, 200);
    const { protocolVersion, serverInfo, capabilities, instructions } = resultOf(body);
    assert.equal(protocolVersion, agreed);
    assert.deepEqual(serverInfo, { name: 'test', version: '1.0.0' });
    assert.deepEqual((capabilities as Body)['tools'], { listChanged: true });
    assert.equal(instructions, 'be gentle');
    assert.equal('resultType' in resultOf(body), false);
    assert.match(headers.get('mcp-session-id') ?? '', /^[\x21-\x7e]{22,}$/);
  });
}

test('T-43 MODE-71 MODE-83 row 1 every handshake gets an id of its own', async (t) => {
  const { url } = await start(t);
  const ids = await Promise.all(Array.from({ length: 200 }, () => begin(url)));
  assert.equal(new Set(ids).size, 200);
});

test('the version header does not bind initialize', async (t) => {
  const { url } = await start(t);
  const unknown = await send(url, initialize('2025-06-18'), { 'MCP-Protocol-Version': '1999-01-01' });
  assert.equal(resultOf(unknown.body)['protocolVersion'], '2025-06-18');
  const other = await send(url, initialize('2025-03-26'), { 'MCP-Protocol-Version': '2025-11-25' });
  assert.equal(resultOf(other.body)['protocolVersion'], '2025-03-26');
});

test('an initialize that fails leaves no record and sends no id', async (t) => {
  const { url, bucket } = await start(t);
  const { protocolVersion, capabilities, clientInfo } = initialize()['params'] as Body;
  const malformed = [
    { capabilities, clientInfo },
    { protocolVersion, clientInfo },
    { protocolVersion, capabilities },
    { protocolVersion, capabilities, clientInfo: {} },
    { protocolVersion, capabilities: [], clientInfo },
    {},
  ];
  for (const params of malformed) {
    const { headers, body } = await send(url, rpc('initialize', params as Body));
    assert.equal(errorOf(body)['code'], -32602);
    assert.equal(headers.get('mcp-session-id'), null);
  }
  assert.equal((await send(url, notification('initialize', initialize()['params']))).status, 400);
  assert.equal(await keysIn(bucket), 0);
});

test('an initialize whose record cannot be stored sends no id', async (t) => {
  const store = new SwitchedBucket();
  const { url } = await start(t, { store });
  store.down = true;
  const failed = await send(url, initialize());
  assert.equal(failed.status, 503);
  assert.equal(failed.headers.get('mcp-session-id'), null);
});

test('T-44 T-70 MODE-74 MODE-78 requests and notifications of a session carry its id', async (t) => {
  const { url } = await start(t);
  const id = await begin(url);
  const session = { 'Mcp-Session-Id': id };
  const ping = await send(url, rpc('ping'), session);
  assert.deepEqual(ping.body, { jsonrpc: '2.0', id: 1, result: {} });
  assert.equal(ping.headers.get('mcp-session-id'), id);
  const initialized = await send(url, notification('notifications/initialized'), session);
  assert.equal(initialized.status, 202);
  assert.equal(initialized.headers.get('mcp-session-id'), id);
  assert.equal((await send(url, rpc('tools/list'), session)).status, 200);
});

test('T-45 T-34 MODE-72 MODE-73 MODE-77 T-155 without an id, or with an empty one: 400', async (t) => {
  const { url } = await start(t);
  for (const session of [{}, { 'Mcp-Session-Id': '' }] as Record<string, string>[]) {
    const refused = await send(url, rpc('tools/list', {}, 77), session);
    assert.equal(refused.status, 400);
    assert.equal(refused.body['id'], 77);
    assert.equal(errorOf(refused.body)['code'], -32600);
    assert.equal((await send(url, notification('notifications/initialized'), session)).status, 400);
    assert.equal((await send(url, { jsonrpc: '2.0', id: 1, result: {} }, session)).status, 400);
    // MODE-92, T-50 MODE-106
    assert.equal((await send(url, '', session, 'GET')).status, 400);
    assert.equal((await send(url, '', session, 'DELETE')).status, 400);
  }
});

test('T-46 row 18 an invented id answers 404 on every verb, before any event', async (t) => {
  const { url } = await start(t);
  const live = await begin(url);
  // MODE-76: ids are compared letter by letter.
  const swapped = live.replace(/[a-z]|[A-Z]/g, (letter) =>
    letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
  );
  for (const id of ['x', 'A'.repeat(32), '1868a90c-2f09-4d67-b3c8-6a0d0d4b7a0c', swapped]) {
    for (const method of ['POST', 'GET', 'DELETE']) {
      const refused = await send(url, bump, { 'Mcp-Session-Id': id }, method);
      assert.equal(refused.status, 404);
      assert.equal(refused.headers.get('content-type'), 'application/json');
      assert.deepEqual(errorOf(refused.body), { code: -32600, message: 'Session not found' });
      assert.equal(refused.body['id'], method === 'POST' ? 1 : undefined);
    }
  }
});

test('T-47 T-48 T-49 MODE-104 MODE-105 row 19 a deleted session is gone on every verb', async (t) => {
  const { url } = await start(t);
  const id = await begin(url);
  const session = { 'Mcp-Session-Id': id };
  const deleted = await send(url, '', session, 'DELETE');
  assert.equal(deleted.status, 204);
  assert.equal(deleted.headers.get('mcp-session-id'), null);
  for (const method of ['POST', 'GET', 'DELETE']) assert.equal((await send(url, bump, session, method)).status, 404);
  assert.notEqual(await begin(url), id);
});

test('row 20 a terminated session answers 404 on every verb', async (t) => {
  const { url, sessions } = await start(t);
  const id = await begin(url);
  const scope = { namespace: '', owner: undefined };
  await (await sessions.open('session', scope, id))?.terminate('enough');
  for (const method of ['POST', 'GET', 'DELETE']) {
    assert.equal((await send(url, bump, { 'Mcp-Session-Id': id }, method)).status, 404);
  }
});

test('MODE-115 MODE-118 row 13 row 17 row 61 an hour of silence ends a session to the millisecond, a request renews it', async (t) => {
  let now = 1_800_000_000_000;
  const { url } = await start(t, { now: () => now });
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (let request = 0; request < 5; request += 1) {
    now += 3_600_000 - 1;
    assert.equal((await send(url, rpc('ping'), session)).status, 200);
  }
  now += 3_600_000;
  for (const method of ['POST', 'GET', 'DELETE']) assert.equal((await send(url, bump, session, method)).status, 404);
});

test('MODE-116 row 16 finding 20 an open GET stream keeps its session alive', async (t) => {
  let now = 1_800_000_000_000;
  const { url } = await start(t, { now: () => now });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, session);
  now += 3 * 3_600_000;
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
  stream.leave();
});

test('MODE-117 row 15 finding 14 a running call keeps its session alive', async (t) => {
  let now = 1_800_000_000_000;
  const tools = {
    long: () => {
      now += 3 * 3_600_000;
      return {};
    },
  };
  const { url } = await start(t, { now: () => now, tools });
  const session = { 'Mcp-Session-Id': await begin(url) };
  assert.equal((await send(url, rpc('tools/call', { name: 'long' }), session)).status, 200);
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
});

test('initialize naming a live session is refused, and the session stays as it is (MODE-81)', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-06-18') };
  await send(url, bump, session);
  const again = await send(url, initialize('2025-11-25'), session);
  assert.equal(again.status, 400);
  assert.equal(errorOf(again.body)['code'], -32600);
  const { revision } = resultOf((await send(url, rpc('tools/call', { name: 'whoami' }), session)).body)[
    'structuredContent'
  ] as Body;
  assert.equal(revision, '2025-06-18');
  assert.equal(words((await send(url, bump, session)).body), '2');
});

test('initialize naming a dead or invented session gets a fresh one', async (t) => {
  const { url } = await start(t);
  const dead = await begin(url);
  await send(url, '', { 'Mcp-Session-Id': dead }, 'DELETE');
  for (const id of [dead, 'invented', '']) {
    const { status, headers } = await send(url, initialize(), { 'Mcp-Session-Id': id });
    assert.equal(status, 200);
    assert.notEqual(headers.get('mcp-session-id'), id);
    assert.ok(headers.get('mcp-session-id'));
  }
});

test('T-21 T-33 MODE-79 MODE-80 the version of a session holds, whatever the header says', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url, '2025-06-18') };
  for (const more of [{}, { 'MCP-Protocol-Version': '2025-11-25' }, { 'MCP-Protocol-Version': '2025-06-18' }] as Record<
    string,
    string
  >[]) {
    const { status, body } = await send(url, rpc('tools/call', { name: 'whoami' }), { ...session, ...more });
    assert.equal(status, 200);
    assert.equal((resultOf(body)['structuredContent'] as Body)['revision'], '2025-06-18');
  }
});

test('T-32 MODE-11 MODE-109 an unknown version header is 400 on every verb, and the session lives', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (const version of ['1900-01-01', 'not-a-version', '', '2025-11-25, 2025-06-18']) {
    for (const method of ['POST', 'GET', 'DELETE']) {
      const refused = await send(url, rpc('ping', {}, 77), { ...session, 'MCP-Protocol-Version': version }, method);
      assert.equal(refused.status, 400);
      assert.equal(errorOf(refused.body)['code'], -32022);
      assert.equal(refused.body['id'], method === 'POST' ? 77 : undefined);
    }
  }
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
});

test('T-63 an unknown method is an error over 200: the session is not gone', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (const method of ['foo/bar', 'server/discover', 'subscriptions/listen']) {
    const answered = await send(url, rpc(method), session);
    assert.equal(answered.status, 200);
    assert.equal(errorOf(answered.body)['code'], -32601);
  }
});

test('T-37 T-38 errors of handlers ride on 200', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const tool = await send(url, rpc('tools/call', { name: 'none' }), session);
  assert.deepEqual([tool.status, errorOf(tool.body)['code']], [200, -32602]);
  const resource = await send(url, rpc('resources/read', { uri: 'x:y' }), session);
  assert.deepEqual([resource.status, errorOf(resource.body)['code']], [200, -32002]);
});

test('T-39 row 49 the log level is kept for the session, and before it is set nothing is logged', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const log = rpc('tools/call', { name: 'log' });
  assert.equal((await send(url, log, session)).messages.length, 1);
  const loud = await send(url, rpc('logging/setLevel', { level: 'loud' }), session);
  assert.deepEqual([loud.status, errorOf(loud.body)['code']], [200, -32602]);
  assert.deepEqual(resultOf((await send(url, rpc('logging/setLevel', { level: 'warning' }), session)).body), {});
  assert.equal((await send(url, log, session)).messages.length, 2);
  assert.equal((await send(url, log, { 'Mcp-Session-Id': await begin(url) })).messages.length, 1);
});

test('row 21 finding 21 what the handshake agreed on is read from the bucket, by any process', async (t) => {
  const one = await start(t);
  const two = await start(t, { store: one.bucket });
  const session = { 'Mcp-Session-Id': await begin(one.url, '2025-06-18', { elicitation: {} }) };
  await send(one.url, notification('notifications/initialized'), session);
  const { body } = await send(two.url, rpc('tools/call', { name: 'whoami' }), session);
  assert.deepEqual(resultOf(body)['structuredContent'], {
    clientInfo: { name: 'wire', version: '0.1' },
    clientCapabilities: { elicitation: {} },
    revision: '2025-06-18',
    canPush: true,
    owner: null,
  });
  const counted = await Promise.all(
    Array.from({ length: 40 }, (_, at) => send(at % 2 === 0 ? one.url : two.url, bump, session)),
  );
  assert.deepEqual(
    counted.map(({ body: each }) => Number(words(each))).sort((a, b) => a - b),
    Array.from({ length: 40 }, (_, at) => at + 1),
  );
});
