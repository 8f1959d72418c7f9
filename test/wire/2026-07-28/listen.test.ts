import assert from 'node:assert/strict';
import test from 'node:test';
import { errorOf, Events, meta, modern, rpc, send, start } from '../../support/wire.ts';
import type { Body } from '../../support/wire.ts';

const key = 'io.modelcontextprotocol/subscriptionId';
const toolsChanged = { method: 'notifications/tools/list_changed' };

function listen(url: string, id: string | number, notifications: Body): Promise<Events> {
  const body = rpc('subscriptions/listen', { notifications, _meta: meta() }, id);
  return Events.open(url, modern('subscriptions/listen'), body);
}

for (const id of ['L1', 7, 0]) {
  test(`T-130 T-131 T-135 row 67 listening as ${JSON.stringify(id)} is acknowledged first`, async (t) => {
    const { url, hub } = await start(t);
    const stream = await listen(url, id, { toolsListChanged: true });
    assert.equal(stream.response.headers.get('content-type'), 'text/event-stream');
    assert.deepEqual(await stream.next(), {
      jsonrpc: '2.0',
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: { toolsListChanged: true }, _meta: { [key]: id } },
    });
    hub.publish(toolsChanged);
    assert.deepEqual(await stream.next(), { jsonrpc: '2.0', ...toolsChanged, params: { _meta: { [key]: id } } });
    stream.leave();
  });
}

test('T-132 T-133 row 66 row 67 what is not offered is not acknowledged, and only what was is sent', async (t) => {
  const { url, hub } = await start(t);
  const stream = await listen(url, 'L', {
    promptsListChanged: true,
    toolsListChanged: false,
    resourceSubscriptions: ['a:b'],
    unheardOf: true,
  });
  const acknowledged = (await stream.next())?.['params'] as Body;
  assert.deepEqual(acknowledged['notifications'], { resourceSubscriptions: ['a:b'] });
  hub.publish(toolsChanged);
  hub.publish({ method: 'notifications/resources/updated', params: { uri: 'a:c' } });
  hub.publish({ method: 'notifications/resources/updated', params: { uri: 'a:b' } });
  const { method, params } = (await stream.next()) ?? {};
  assert.equal(method, 'notifications/resources/updated');
  assert.deepEqual(params, { uri: 'a:b', _meta: { [key]: 'L' } });
  stream.leave();
});

test('T-134 listening to nothing said is refused', async (t) => {
  const { url } = await start(t);
  const answered = await send(url, rpc('subscriptions/listen', { _meta: meta() }), modern('subscriptions/listen'));
  assert.equal(errorOf(answered.body)['code'], -32602);
});

test('T-129 two listeners with one id do not meet', async (t) => {
  const { url, hub } = await start(t);
  const [tools, resources] = [
    await listen(url, 1, { toolsListChanged: true }),
    await listen(url, 1, { resourceSubscriptions: ['a:b'] }),
  ];
  await tools.next();
  await resources.next();
  hub.publish(toolsChanged);
  hub.publish({ method: 'notifications/resources/updated', params: { uri: 'a:b' } });
  assert.equal((await tools.next())?.['method'], toolsChanged.method);
  assert.equal((await resources.next())?.['method'], 'notifications/resources/updated');
  tools.leave();
  resources.leave();
});

test('T-136 a server that closes ends the stream with the result', async (t) => {
  const { url, server } = await start(t);
  const stream = await listen(url, 'L', { toolsListChanged: true });
  await stream.next();
  const closed = server.close();
  assert.deepEqual(await stream.next(), {
    jsonrpc: '2.0',
    id: 'L',
    result: {
      resultType: 'complete',
      _meta: { [key]: 'L', 'io.modelcontextprotocol/serverInfo': { name: 'test', version: '1.0.0' } },
    },
  });
  assert.equal(await stream.next(), undefined);
  await closed;
});
