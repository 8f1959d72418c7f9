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
import type { Answered, Body } from '../../support/wire.ts';

const versionKey = 'io.modelcontextprotocol/protocolVersion';
const list = (more: Body = {}): Body => rpc('tools/list', { _meta: meta({}, more) }, 'id');

function ask(url: string, method: string, params: Body = {}, capabilities = {}, more: Body = {}): Promise<Answered> {
  const name = params['name'] ?? params['uri'];
  const headers = modern(method, name === undefined ? undefined : String(name));
  return send(url, rpc(method, { ...params, _meta: meta(capabilities, more) }, 'id'), headers);
}

const { [versionKey]: _version, ...withoutVersion } = meta();
const { 'io.modelcontextprotocol/clientCapabilities': _capabilities, ...withoutCapabilities } = meta();
const { 'io.modelcontextprotocol/clientInfo': _client, ...withoutClient } = meta();
const v999 = { [versionKey]: 'v999.0.0' };
const good = modern('tools/list');
const { 'Mcp-Method': _method, ...withoutMethod } = good;
const { 'MCP-Protocol-Version': _header, ...withoutHeader } = good;

const checked: {
  name: string;
  params?: Body;
  body?: Body;
  headers: Record<string, string>;
  code: number;
  method?: string;
}[] = [
  { name: 'T-81 no _meta', params: {}, headers: good, code: -32602 },
  { name: 'T-157 MODE-50 no parameters', body: rpc('tools/list', undefined, 'id'), headers: good, code: -32602 },
  { name: 'T-82 no version in _meta', params: { _meta: withoutVersion }, headers: good, code: -32602 },
  { name: 'T-83 MODE-52 no capabilities', params: { _meta: withoutCapabilities }, headers: good, code: -32602 },
  {
    name: 'MODE-52 capabilities that are no object',
    params: { _meta: meta('x') },
    headers: good,
    code: -32602,
  },
  {
    name: 'no capabilities and no header',
    params: { _meta: withoutCapabilities },
    headers: withoutHeader,
    code: -32602,
  },
  { name: 'T-86 another version in _meta', body: list(v999), headers: good, code: -32020 },
  { name: 'T-87 MODE-49 no version header', body: list(), headers: withoutHeader, code: -32020 },
  {
    name: 'MODE-51 a handshake version in the header',
    body: list(),
    headers: { ...good, 'MCP-Protocol-Version': '2025-11-25' },
    code: -32020,
  },
  { name: 'T-88 MODE-45 no Mcp-Method', body: list(), headers: withoutMethod, code: -32020 },
  { name: 'T-89 MODE-46 another Mcp-Method', body: list(), headers: modern('prompts/list'), code: -32020 },
  { name: 'T-90 Mcp-Method in upper case', body: list(), headers: modern('TOOLS/LIST'), code: -32020 },
  {
    name: 'T-158 initialize without _meta',
    body: initialize('2026-07-28'),
    headers: modern('initialize'),
    code: -32020,
  },
];

for (const { name, params, body, headers, code } of checked) {
  test(`${name} is refused with 400 ${code}`, async (t) => {
    const { url, dispatch, bucket } = await start(t);
    const refused = await send(url, body ?? rpc('tools/list', params ?? {}, 'id'), headers);
    assert.deepEqual([refused.status, errorOf(refused.body)['code']], [400, code]);
    assert.equal(refused.body['id'], (body ?? { id: 'id' })['id']);
    assert.equal(dispatch.seen.length, 0);
    assert.equal(await keysIn(bucket), 0);
  });
}

test('T-80 T-110 MODE-40 server/discover says what is served', async (t) => {
  const { url } = await start(t);
  const { status, headers, body } = await ask(url, 'server/discover');
  assert.equal(status, 200);
  assert.equal(headers.get('mcp-session-id'), null);
  const { supportedVersions, capabilities, resultType, ttlMs, cacheScope, _meta, instructions } = resultOf(body);
  assert.deepEqual(supportedVersions, ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26']);
  assert.deepEqual((capabilities as Body)['tools'], { listChanged: true });
  assert.deepEqual([resultType, ttlMs, cacheScope, instructions], ['complete', 0, 'private', 'be gentle']);
  assert.deepEqual(_meta, { 'io.modelcontextprotocol/serverInfo': { name: 'test', version: '1.0.0' } });
});

test('T-84 MODE-53 a client need not name itself', async (t) => {
  const { url } = await start(t);
  const params = { name: 'whoami', _meta: withoutClient };
  const { status, body } = await send(url, rpc('tools/call', params), modern('tools/call', 'whoami'));
  assert.equal(status, 200);
  assert.equal((resultOf(body)['structuredContent'] as Body)['clientInfo'], null);
});

test('T-85 MODE-12 T-159 an unknown version is refused with those that discover names', async (t) => {
  const { url } = await start(t);
  const { supportedVersions } = resultOf((await ask(url, 'server/discover')).body);
  for (const version of ['v999.0.0', '9999-01-01']) {
    const headers = { ...good, 'MCP-Protocol-Version': version };
    const { status, body } = await send(url, list({ [versionKey]: version }), headers);
    assert.deepEqual([status, errorOf(body)['code'], body['id']], [400, -32022, 'id']);
    const { supported, requested } = errorOf(body)['data'] as Body;
    assert.equal(requested, version);
    assert.deepEqual(supported, supportedVersions);
  }
});

test('MODE-69 a handshake version cannot be had by metadata', async (t) => {
  for (const mode of ['stateless', 'stateful-for-initialize'] as const) {
    const { url } = await start(t, { mode });
    const version = '2025-11-25';
    const { status, body } = await send(url, list({ [versionKey]: version }), {
      ...good,
      'MCP-Protocol-Version': version,
    });
    assert.deepEqual([status, errorOf(body)['code']], [400, -32022]);
    assert.equal(((errorOf(body)['data'] as Body)['supported'] as string[]).includes(version), false);
  }
});

const names = [
  { name: 'MODE-47 no Mcp-Name', tool: 'echo', header: undefined, status: 400 },
  { name: 'T-92 another Mcp-Name', tool: 'echo', header: 'ECHO', status: 400 },
  { name: 'T-93 spaces around it', tool: 'echo', header: '  echo  ', status: 200 },
  { name: 'T-94 MODE-48 its Base64 form', tool: 'größe', header: '=?base64?Z3LDtsOfZQ==?=', status: 200 },
  { name: 'MODE-48 no padding', tool: 'größe', header: '=?base64?Z3LDtsOfZQ?=', status: 400 },
  { name: 'a foreign alphabet', tool: 'größe', header: '=?base64?Z3LD!sOfZQ==?=', status: 400 },
  { name: 'bytes that are no UTF-8', tool: 'größe', header: '=?base64?/////w==?=', status: 400 },
];

for (const { name, tool, header, status } of names) {
  test(`tools/call with ${name} answers ${status}`, async (t) => {
    const { url } = await start(t);
    const body = rpc('tools/call', { name: tool, _meta: meta() });
    const answered = await send(url, body, modern('tools/call', header));
    assert.equal(answered.status, status);
    if (status === 400) assert.equal(errorOf(answered.body)['code'], -32020);
  });
}

test('T-95 resources/read repeats its URI', async (t) => {
  const { url } = await start(t);
  const body = rpc('resources/read', { uri: 'a:b', _meta: meta() });
  assert.equal((await send(url, body, modern('resources/read', 'a:c'))).status, 400);
  assert.equal((await send(url, body, modern('resources/read', 'a:b'))).status, 200);
});

test('T-98 what only resembles the Base64 form is taken as it is', async (t) => {
  const odd = { 'SGVsbG8=': () => text('a'), '=?base64?SGVsbG8=': () => text('b') };
  const { url } = await start(t, { tools: odd });
  for (const name of Object.keys(odd)) assert.equal((await ask(url, 'tools/call', { name })).status, 200);
});

test('T-102 MODE-55 an unknown method is 404 with a body', async (t) => {
  const { url } = await start(t);
  const { status, body } = await ask(url, 'unknown/method');
  assert.deepEqual([status, errorOf(body)['code'], body['id']], [404, -32601, 'id']);
});

for (const mode of ['stateful', 'stateful-for-initialize', 'stateless'] as const) {
  test(`T-103 MODE-54 what the revision took away is 404 in mode ${mode}`, async (t) => {
    const { url, bucket } = await start(t, { mode });
    const removed = ['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'];
    for (const method of removed) {
      const params = initialize()['params'] as Body;
      const { status, headers, body } = await ask(url, method, method === 'initialize' ? params : {});
      assert.deepEqual([status, errorOf(body)['code'], body['id']], [404, -32601, 'id']);
      assert.equal(headers.get('mcp-session-id'), null);
    }
    assert.equal(await keysIn(bucket), 0);
  });
}

test('T-105 MODE-63 MODE-64 GET and DELETE are 405, also with a live session, which goes on', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (const method of ['GET', 'DELETE']) {
    for (const more of [{}, session]) {
      const refused = await send(url, '', { ...more, 'MCP-Protocol-Version': '2026-07-28' }, method);
      assert.equal(refused.status, 405);
      assert.equal(refused.headers.get('allow'), 'POST');
    }
  }
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
});

test('T-106 T-107 MODE-43 MODE-44 row 24 finding 8 session id and Last-Event-ID mean nothing', async (t) => {
  const { url } = await start(t);
  for (const id of ['x', await begin(url)]) {
    const { status, headers } = await send(url, list(), { ...good, 'Mcp-Session-Id': id, 'Last-Event-ID': '9' });
    assert.equal(status, 200);
    assert.equal(headers.get('mcp-session-id'), null);
  }
});

test('T-109 MODE-60 MODE-61 notifications are taken, with or without Mcp-Method, responses are not', async (t) => {
  const { url } = await start(t);
  const { 'MCP-Protocol-Version': version = '' } = good;
  for (const headers of [{ 'MCP-Protocol-Version': version }, { ...good }]) {
    assert.equal((await send(url, notification('notifications/cancelled', { requestId: 1 }), headers)).status, 202);
    assert.equal((await send(url, { jsonrpc: '2.0', id: 1, result: {} }, headers)).status, 400);
  }
  const mismatched = notification('notifications/x', { _meta: meta({}, v999) });
  assert.equal(errorOf((await send(url, mismatched, good)).body)['code'], -32020);
});

test('T-110 every result says that it is complete, lists also how long they hold', async (t) => {
  const { url } = await start(t, { tools: { partial: () => ({ resultType: 'input_required', requestState: 's' }) } });
  const tools = resultOf((await ask(url, 'tools/list')).body);
  assert.deepEqual([tools['resultType'], tools['ttlMs'], tools['cacheScope']], ['complete', 0, 'private']);
  const echo = resultOf((await ask(url, 'tools/call', { name: 'echo' })).body);
  assert.deepEqual([echo['resultType'], 'ttlMs' in echo], ['complete', false]);
  const partial = resultOf((await ask(url, 'tools/call', { name: 'partial' })).body);
  assert.equal(partial['resultType'], 'input_required');
});

test('T-111 T-112 T-113 row 49 row 50 finding 12 finding 13 a request says itself what it wants to hear of the log', async (t) => {
  const { url } = await start(t);
  const key = 'io.modelcontextprotocol/logLevel';
  assert.equal((await ask(url, 'tools/call', { name: 'log' })).messages.length, 1);
  const heard = await ask(url, 'tools/call', { name: 'log' }, {}, { [key]: 'warning' });
  assert.deepEqual(
    heard.messages.map(({ method }) => method),
    ['notifications/message', undefined],
  );
  const loud = await ask(url, 'tools/call', { name: 'log' }, {}, { [key]: 'loud' });
  assert.deepEqual([loud.status, errorOf(loud.body)['code']], [200, -32602]);
});

test("T-114 T-115 row 48 progress carries the client's token with its type, in a stream without ids", async (t) => {
  const { url } = await start(t);
  const answered = await ask(url, 'tools/call', { name: 'progress' }, {}, { progressToken: 5 });
  assert.equal(answered.headers.get('x-accel-buffering'), 'no');
  assert.doesNotMatch(answered.text, /^id:/m);
  const progress = answered.messages.slice(0, -1).map(({ params }) => params);
  assert.deepEqual(
    progress,
    [1, 2, 3].map((step) => ({ progressToken: 5, progress: step })),
  );
  assert.equal(resultOf(answered.body)['resultType'], 'complete');
});

test('T-116 MODE-57 MODE-58 a missing capability is 400, and 200 once the stream has begun', async (t) => {
  const { url } = await start(t);
  const early = await ask(url, 'tools/call', { name: 'capability' });
  assert.deepEqual([early.status, errorOf(early.body)['code']], [400, -32021]);
  assert.deepEqual(errorOf(early.body)['data'], { requiredCapabilities: { sampling: {} } });
  const late = await ask(url, 'tools/call', { name: 'lateCapability' });
  assert.deepEqual([late.status, errorOf(late.body)['code']], [200, -32021]);
});

test('T-138 T-139 MODE-56 errors of handlers ride on 200, and a missing resource is -32602', async (t) => {
  const { url } = await start(t);
  const resource = await ask(url, 'resources/read', { uri: 'a:b' });
  assert.deepEqual([resource.status, errorOf(resource.body)['code']], [200, -32602]);
  assert.deepEqual(errorOf(resource.body)['data'], { uri: 'a:b' });
  const tool = await ask(url, 'tools/call', { name: 'none' });
  assert.deepEqual([tool.status, errorOf(tool.body)['code']], [200, -32602]);
});

test('T-137 row 51 a client that goes away cancels its call', async (t) => {
  let running: () => void;
  let stopped: () => void;
  const isRunning = new Promise<void>((resolve) => (running = resolve));
  const isStopped = new Promise<void>((resolve) => (stopped = resolve));
  const { url } = await start(t, {
    tools: {
      slow: (call) =>
        new Promise((resolve) => {
          call.signal.addEventListener('abort', () => {
            stopped();
            resolve(text('too late'));
          });
          running();
        }),
    },
  });
  const abort = new AbortController();
  const body = JSON.stringify(rpc('tools/call', { name: 'slow', _meta: meta() }));
  const headers = { ...modern('tools/call', 'slow'), 'Content-Type': 'application/json', Accept: '*/*' };
  const answer = fetch(url, { method: 'POST', headers, body, signal: abort.signal });
  await isRunning;
  abort.abort();
  await assert.rejects(answer);
  await isStopped;
});

test('T-156 reserved metadata other than the version does not make a request modern', async (t) => {
  const { url } = await start(t);
  const params = { _meta: { 'io.modelcontextprotocol/related-task': { taskId: 'x' } } };
  assert.equal((await send(url, rpc('tools/list', params), { 'Mcp-Session-Id': await begin(url) })).status, 200);
});
