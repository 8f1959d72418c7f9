import assert from 'node:assert/strict';
import test from 'node:test';
import {
  base,
  begin,
  errorOf,
  exchange,
  initialize,
  keysIn,
  notification,
  read,
  resultOf,
  rpc,
  send,
  start,
} from '../support/wire.ts';

test('T-03 T-04 the own Host and Origin are served, and so is no Origin', async (t) => {
  const { url } = await start(t);
  assert.equal((await send(url, initialize())).status, 200);
  assert.equal((await send(url, initialize(), { Origin: new URL(url).origin })).status, 200);
});

const noMessages = [
  { name: 'T-05 a cut body', body: '{"jsonrpc":', code: -32700 },
  { name: 'an empty body', body: '', code: -32700 },
  { name: 'a byte order mark', body: '\ufeff{}', code: -32700 },
  { name: 'invalid UTF-8', body: Uint8Array.of(0x22, 0xff, 0x22), code: -32700 },
  { name: 'a string', body: '"x"', code: -32600 },
  { name: 'a number', body: '42', code: -32600 },
  { name: 'null', body: 'null', code: -32600 },
  { name: 'an empty object', body: '{}', code: -32600 },
  { name: 'T-26 an empty batch', body: '[]', code: -32600 },
  { name: 'a batch of no messages', body: '[1]', code: -32600 },
  { name: 'T-06 MODE-08 the id null', body: '{"jsonrpc":"2.0","id":null,"method":"tools/list"}', code: -32600 },
  { name: 'a fraction as id', body: '{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', code: -32600 },
  { name: 'an id beyond exact numbers', body: '{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', code: -32600 },
  { name: 'an array of parameters', body: '{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}', code: -32600, id: 7 },
  { name: 'T-07 MODE-09 no jsonrpc', body: '{"id":7,"method":"tools/list"}', code: -32600, id: 7 },
  { name: 'T-07 jsonrpc 1.0', body: '{"jsonrpc":"1.0","id":7,"method":"tools/list"}', code: -32600, id: 7 },
  { name: 'T-07 no method', body: '{"jsonrpc":"2.0","id":7}', code: -32600, id: 7 },
  { name: 'a method that is no string', body: '{"jsonrpc":"2.0","id":7,"method":7}', code: -32600, id: 7 },
  { name: 'a result beside an error', body: '{"jsonrpc":"2.0","id":7,"result":{},"error":{}}', code: -32600, id: 7 },
  { name: 'only the parameters of initialize', body: JSON.stringify({ params: initialize()['params'] }), code: -32600 },
];

for (const { name, body, code, id } of noMessages) {
  test(`${name} is refused with 400 and leaves nothing`, async (t) => {
    const { url, bucket } = await start(t);
    const answered = await send(url, body);
    assert.equal(answered.status, 400);
    assert.equal(errorOf(answered.body)['code'], code);
    assert.deepEqual(answered.body['id'], id);
    assert.equal('id' in answered.body, id !== undefined);
    assert.equal(await keysIn(bucket), 0);
  });
}

test('T-08 an id keeps its JSON type', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  for (const id of ['1', 1, 0, '']) assert.strictEqual((await send(url, rpc('ping', {}, id), session)).body['id'], id);
});

test('T-09 MODE-26 what needs no response gets 202 with no body and no type', async (t) => {
  const { url } = await start(t);
  const session = { 'Mcp-Session-Id': await begin(url) };
  const posted = [
    notification('notifications/initialized'),
    notification('notifications/cancelled', { requestId: 5 }),
    { jsonrpc: '2.0', id: 'never asked', result: {} },
  ];
  for (const body of posted) {
    const { status, headers, text } = await send(url, body, session);
    assert.equal(status, 202);
    assert.equal(headers.get('content-length'), '0');
    assert.equal(headers.get('content-type'), null);
    assert.equal(text, '');
  }
});

test('T-10 MODE-15 other verbs get 405 with Allow', async (t) => {
  const { url } = await start(t);
  for (const method of ['PUT', 'PATCH', 'HEAD']) {
    const response = await fetch(url, { method, headers: base });
    assert.equal(response.status, 405);
    assert.equal(response.headers.get('allow'), 'GET, POST, DELETE');
  }
});

test('T-12 row 76 a result comes as JSON', async (t) => {
  const { url } = await start(t);
  const { status, headers } = await send(url, initialize());
  assert.equal(status, 200);
  assert.equal(headers.get('content-type'), 'application/json');
});

test('T-13 MODE-75 header names are read in any case', async (t) => {
  const { url, server } = await start(t);
  const id = await begin(url);
  const body = JSON.stringify(rpc('ping'));
  for (const name of ['mcp-session-id', 'MCP-SESSION-ID', 'mCP-sESSION-iD']) {
    const answer = await exchange(
      server.port,
      [
        'POST /mcp HTTP/1.1',
        'Host: localhost',
        'CONTENT-type: application/json',
        `${name}: ${id}`,
        'aCCEPT: */*',
        `Content-Length: ${body.length}`,
        'Connection: close',
        '',
        body,
      ].join('\r\n'),
    );
    assert.match(answer, /^HTTP\/1\.1 200 /);
  }
});

const accepts = [
  { name: 'MODE-02 a wildcard', accept: '*/*', status: 200 },
  { name: 'MODE-03 qualities', accept: 'text/event-stream, application/json;q=0.9', status: 200 },
  { name: 'a wildcard of one kind', accept: 'application/*, text/event-stream', status: 200 },
  { name: 'upper case', accept: 'APPLICATION/JSON, Text/Event-Stream', status: 200 },
  { name: 'low qualities', accept: 'application/json;q=0.9, text/event-stream;q=0.1', status: 200 },
  { name: 'MODE-01 only JSON', accept: 'application/json', status: 406 },
  { name: 'only events', accept: 'text/event-stream', status: 406 },
  { name: 'a kind excluded by q=0', accept: '*/*, application/json;q=0', status: 406 },
  { name: 'another kind', accept: 'text/html', status: 406 },
];

for (const { name, accept, status } of accepts) {
  test(`row 76 Accept with ${name} answers ${status}`, async (t) => {
    const { url } = await start(t);
    assert.equal((await send(url, initialize(), { Accept: accept })).status, status);
  });
}

const contentTypes = [
  { type: 'application/json; charset=utf-8', status: 200 },
  { type: 'application/json;charset="UTF-8"', status: 200 },
  { type: 'Application/JSON ; Charset = utf-8', status: 200 },
  { type: 'application/json; charset=iso-8859-1', status: 415 },
  { type: 'text/plain', status: 415 },
  { type: 'text/plain; a=application/json', status: 415 },
  { type: 'application/jsonx', status: 415 },
  { type: 'application/json, text/plain', status: 415 },
  { type: undefined, status: 415 },
];

for (const { type, status } of contentTypes) {
  test(`MODE-05 row 76 Content-Type ${type ?? 'absent'} answers ${status}`, async (t) => {
    const { server, url } = await start(t);
    const body = JSON.stringify(initialize());
    const field = type === undefined ? [] : [`Content-Type: ${type}`];
    const answer = await exchange(
      server.port,
      [
        `POST ${new URL(url).pathname} HTTP/1.1`,
        'Host: localhost',
        'Accept: */*',
        ...field,
        `Content-Length: ${body.length}`,
        'Connection: close',
        '',
        body,
      ].join('\r\n'),
    );
    assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `));
  });
}

test('two Content-Type headers answer 415, and MODE-04 no Accept 406', async (t) => {
  const { server } = await start(t);
  const body = JSON.stringify(initialize());
  const head = ['POST /mcp HTTP/1.1', 'Host: localhost', 'Connection: close', `Content-Length: ${body.length}`];
  const twice = [...head, 'Accept: */*', 'Content-Type: application/json', 'Content-Type: text/plain', '', body];
  assert.match(await exchange(server.port, twice.join('\r\n')), /^HTTP\/1\.1 415 /);
  const silent = [...head, 'Content-Type: application/json', '', body];
  assert.match(await exchange(server.port, silent.join('\r\n')), /^HTTP\/1\.1 406 /);
});

test('the path is served with and without a slash at its end, without redirect', async (t) => {
  const { url } = await start(t);
  for (const at of [url, `${url}/`, `${url}/?x=1`]) {
    const session = { 'Mcp-Session-Id': await begin(at) };
    assert.equal((await send(at, rpc('ping'), session)).status, 200);
    const stream = new AbortController();
    const got = await fetch(at, { headers: { ...base, ...session }, signal: stream.signal });
    assert.equal(got.status, 200);
    stream.abort();
    assert.equal((await send(at, '', session, 'DELETE')).status, 204);
  }
  assert.equal((await send(url.replace('/mcp', '/other'), rpc('ping'))).status, 404);
});

test('a body over the limit answers 413, declared or not', async (t) => {
  const { url, bucket } = await start(t, { bodyLimit: 1000 });
  const large = JSON.stringify(rpc('ping', { filling: 'x'.repeat(2000) }));
  const declared = await send(url, large);
  assert.equal(declared.status, 413);
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(large));
      controller.close();
    },
  });
  const init: RequestInit & { duplex: 'half' } = { method: 'POST', headers: base, body, duplex: 'half' };
  assert.equal((await read(await fetch(url, init))).status, 413);
  assert.equal((await send(url, initialize('2025-11-25', { filling: 'x'.repeat(500) }))).status, 200);
  assert.equal(await keysIn(bucket), 1);
});

test('what splits lines for some parsers is escaped in a stream, and arrives', async (t) => {
  const odd = 'a\u2028b\u2029c\u0085d';
  const { url } = await start(t, {
    tools: {
      odd: (call) => {
        call.notify({ method: 'notifications/message', params: { data: odd } });
        return { odd };
      },
    },
  });
  const { text, messages } = await send(url, rpc('tools/call', { name: 'odd' }), {
    'Mcp-Session-Id': await begin(url),
  });
  assert.doesNotMatch(text, /[\u0085\u2028\u2029]/);
  assert.equal((messages[0]?.['params'] as { data: string } | undefined)?.data, odd);
  assert.equal(resultOf(messages[1] ?? {})['odd'], odd);
});
