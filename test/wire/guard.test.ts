import assert from 'node:assert/strict';
import test from 'node:test';
import { SwitchedBucket } from '../support/buckets.ts';
import {
  base,
  begin,
  errorOf,
  exchange,
  initialize,
  keysIn,
  meta,
  modern,
  resultOf,
  rpc,
  send,
  start,
} from '../support/wire.ts';

const evil = 'http://evil.example.com';
const app = 'https://app.example.org';

test('T-01 T-02 row 75 a foreign Origin gets 403 on every verb, before anything is looked up or run', async (t) => {
  const store = new SwitchedBucket();
  const { url, dispatch } = await start(t, { store });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const { asked } = store;
  for (const method of ['POST', 'GET', 'DELETE', 'OPTIONS']) {
    const refused = await send(url, rpc('tools/call', { name: 'bump' }), { ...session, Origin: evil }, method);
    assert.equal(refused.status, 403);
    assert.equal('id' in refused.body, false);
    assert.equal(refused.headers.get('access-control-allow-origin'), null);
  }
  for (const origin of ['null', 'http://localhost.evil.example.com', 'http://127.0.0.1.evil.example.com']) {
    assert.equal((await send(url, rpc('ping'), { ...session, Origin: origin })).status, 403);
  }
  assert.equal(store.asked, asked);
  assert.equal(dispatch.seen.length, 0);
});

test('a foreign Host gets 403 on a loopback server, and an allowed one does not', async (t) => {
  const { server } = await start(t, { allowHosts: ['mcp.example.org', 'other.example.org:8443'] });
  const statusFor = async (host: string): Promise<number> => {
    const body = JSON.stringify(initialize());
    const answer = await exchange(
      server.port,
      [
        'POST /mcp HTTP/1.1',
        `Host: ${host}`,
        'Content-Type: application/json',
        'Accept: */*',
        `Content-Length: ${body.length}`,
        'Connection: close',
        '',
        body,
      ].join('\r\n'),
    );
    return Number(answer.slice(9, 12));
  };
  for (const host of [
    'localhost',
    'LOCALHOST:1',
    '127.0.0.1',
    '[::1]:80',
    'mcp.example.org:9',
    'other.example.org:8443',
  ]) {
    assert.equal(await statusFor(host), 200, host);
  }
  for (const host of [
    'evil.example.com',
    'localhost.evil.example.com',
    '127.0.0.1.evil.example.com',
    'other.example.org',
  ]) {
    assert.equal(await statusFor(host), 403, host);
  }
});

test('a page of an allowed origin can read answers and their headers', async (t) => {
  const { url } = await start(t, { allowOrigins: [app] });
  const answered = await send(url, initialize(), { Origin: app });
  assert.equal(answered.status, 200);
  assert.equal(answered.headers.get('access-control-allow-origin'), app);
  assert.equal(answered.headers.get('vary'), 'Origin');
  assert.match(answered.headers.get('access-control-expose-headers') ?? '', /Mcp-Session-Id/);
  const refused = await send(url, rpc('ping'), { Origin: app, 'Mcp-Session-Id': 'x' });
  assert.equal(refused.status, 404);
  assert.equal(refused.headers.get('access-control-allow-origin'), app);
});

test('a preflight is answered without session and without authentication', async (t) => {
  const { url } = await start(t, { allowOrigins: [app], authenticate: async () => undefined });
  const wanted = 'mcp-session-id, mcp-protocol-version, last-event-id, authorization, content-type, mcp-param-region';
  const headers = {
    Origin: app,
    'Access-Control-Request-Method': 'DELETE',
    'Access-Control-Request-Headers': wanted,
  };
  const response = await fetch(url, { method: 'OPTIONS', headers });
  assert.equal(response.status, 204);
  assert.equal(response.headers.get('access-control-allow-origin'), app);
  for (const method of ['GET', 'POST', 'DELETE']) {
    assert.ok(response.headers.get('access-control-allow-methods')?.includes(method));
  }
  for (const name of wanted.split(', '))
    assert.ok(response.headers.get('access-control-allow-headers')?.includes(name));
});

const authenticate = async ({ headers }: { headers: { get(name: string): string | null } }) => {
  const [subject] = headers.get('authorization')?.replace('Bearer ', '').split('/') ?? [];
  return subject === undefined ? undefined : { owner: `issuer ${subject}` };
};

test('T-11 row 71 row 72 without a valid token 401 says how to get one, and nothing is touched', async (t) => {
  const store = new SwitchedBucket();
  const { url } = await start(t, { store, authenticate, challenge: 'Bearer realm="mcp"' });
  const id = await begin(url, undefined, undefined, { Authorization: 'Bearer anna/1' });
  const { asked } = store;
  for (const method of ['POST', 'GET', 'DELETE']) {
    const refused = await send(url, rpc('ping'), { 'Mcp-Session-Id': id }, method);
    assert.equal(refused.status, 401);
    assert.equal(refused.headers.get('www-authenticate'), 'Bearer realm="mcp"');
  }
  assert.equal(store.asked, asked);
});

test('T-51 MODE-110 MODE-111 row 73 another owner finds no session, and does it no harm', async (t) => {
  const { url, events } = await start(t, { authenticate });
  const anna = { Authorization: 'Bearer anna/1' };
  const session = { 'Mcp-Session-Id': await begin(url, undefined, undefined, anna) };
  const invented = { 'Mcp-Session-Id': 'A'.repeat(32) };
  for (const method of ['POST', 'GET', 'DELETE']) {
    const bob = { Authorization: 'Bearer bob/1' };
    const foreign = await send(url, rpc('tools/call', { name: 'bump' }), { ...bob, ...session }, method);
    const unknown = await send(url, rpc('tools/call', { name: 'bump' }), { ...bob, ...invented }, method);
    assert.equal(foreign.status, 404);
    assert.deepEqual(foreign.body, unknown.body);
  }
  assert.equal(events.filter(({ fields }) => fields?.['reason'] === 'owner-mismatch').length, 3);
  // MODE-112: a new token of the same subject is the same owner.
  const again = await send(url, rpc('tools/call', { name: 'whoami' }), { Authorization: 'Bearer anna/2', ...session });
  assert.equal((resultOf(again.body)['structuredContent'] as { owner: string }).owner, 'issuer anna');
});

test('MODE-114 without sessions every owner is served', async (t) => {
  const { url } = await start(t, { authenticate, mode: 'stateless' });
  for (const who of ['anna', 'bob']) {
    const answered = await send(url, rpc('tools/call', { name: 'whoami' }), { Authorization: `Bearer ${who}` });
    assert.equal((resultOf(answered.body)['structuredContent'] as { owner: string }).owner, `issuer ${who}`);
  }
});

test('row 60 finding 19 a store that fails is 503, never an unknown session, and serves again afterwards', async (t) => {
  const store = new SwitchedBucket();
  const { url } = await start(t, { store });
  const session = { 'Mcp-Session-Id': await begin(url) };
  store.down = true;
  for (const method of ['POST', 'GET', 'DELETE']) {
    const failed = await send(url, rpc('ping', {}, 77), session, method);
    assert.equal(failed.status, 503);
    assert.equal(failed.headers.get('retry-after'), '1');
    assert.equal(errorOf(failed.body)['code'], -32603);
    assert.equal(failed.body['id'], method === 'POST' ? 77 : undefined);
  }
  assert.equal((await send(url, initialize())).status, 503);
  assert.equal((await fetch(new URL('/health', url))).status, 503);
  store.down = false;
  assert.equal((await send(url, rpc('ping'), session)).status, 200);
  const health = await fetch(new URL('/health', url));
  assert.equal(health.status, 200);
  assert.deepEqual(await health.json(), { status: 'ok' });
  assert.equal((await fetch(new URL('/health', url), { method: 'POST', headers: base })).status, 405);
});

test('a store that fails in the middle of a call is 503 with the id of the request', async (t) => {
  const store = new SwitchedBucket();
  const tools = {
    fall: async (call: import('../../host/call.ts').Call) => {
      store.down = true;
      await call.session?.set('k', 1);
      return {};
    },
  };
  const { url } = await start(t, { store, tools });
  const session = { 'Mcp-Session-Id': await begin(url) };
  const failed = await send(url, rpc('tools/call', { name: 'fall' }, 'f'), session);
  store.down = false;
  assert.equal(failed.status, 503);
  assert.equal(failed.body['id'], 'f');
});

test('a bug is 500 without details, logged once', async (t) => {
  const { url, events } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const failed = await send(url, rpc('tools/call', { name: 'bug' }, 8), session);
  assert.equal(failed.status, 500);
  assert.deepEqual(failed.body, { jsonrpc: '2.0', id: 8, error: { code: -32603, message: 'Internal error' } });
  const logged = events.filter(({ event }) => event === 'request failed');
  assert.equal(logged.length, 1);
  assert.match(String(logged[0]?.fields?.['error']), /secret of the house/);
});

test('a session id of a shape that is never issued does not reach the bucket', async (t) => {
  const store = new SwitchedBucket();
  const { url, server } = await start(t, { store });
  const ids = ['a b', 'a:b', '*', '>', '../x', '%00', 'x'.repeat(8000), 'sp\u00e4t', 'a, b'];
  for (const id of ids) {
    for (const method of ['POST', 'GET', 'DELETE']) {
      const refused = await send(url, rpc('ping'), { 'Mcp-Session-Id': id }, method);
      assert.equal(refused.status, 404, id);
    }
  }
  const body = JSON.stringify(rpc('ping'));
  const twice = await exchange(
    server.port,
    [
      'POST /mcp HTTP/1.1',
      'Host: localhost',
      'Accept: */*',
      'Content-Type: application/json',
      'Connection: close',
      `Mcp-Session-Id: ${'A'.repeat(32)}`,
      `Mcp-Session-Id: ${'B'.repeat(32)}`,
      `Content-Length: ${body.length}`,
      '',
      body,
    ].join('\r\n'),
  );
  assert.match(twice, /^HTTP\/1\.1 404 /);
  assert.equal(store.asked, 0);
  assert.equal(await keysIn(store), 0);
});

test('T-160 row 24 a session id gives a 2026-07-28 request nothing of the session', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  await send(url, rpc('tools/call', { name: 'bump' }), session);
  const params = { name: 'bump', _meta: meta() };
  const answered = await send(url, rpc('tools/call', params), { ...modern('tools/call', 'bump'), ...session });
  assert.deepEqual(resultOf(answered.body)['content'], [{ type: 'text', text: '0' }]);
});
