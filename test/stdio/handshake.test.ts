import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { errorOf, initialize, meta, notification, resultOf, rpc } from '../support/wire.ts';
import { callOf, modernCall, Talk, textOf } from './talk.ts';

const handshakes = ['2025-11-25', '2025-06-18', '2025-03-26'];

describe('over stdio', () => {
  for (const version of handshakes) {
    test(`${version} has a session: values last from call to call, and nothing is left of it`, async (t) => {
      const talk = await Talk.begin(t, version);
      assert.equal(textOf(await talk.call('count')), '1');
      assert.equal(textOf(await talk.call('count')), '2');
      const { structuredContent } = await talk.call('request');
      const seen = { method: 'POST', url: 'stdio:', header: null, aborted: false };
      assert.deepEqual(structuredContent, { revision: version, hasSession: true, ...seen });
      assert.ok((await talk.keys()) > 0);
      assert.equal(await talk.end(), 0);
      assert.equal(await talk.keys(), 0);
    });
  }

  test('2026-07-28 needs no handshake and has no session', async (t) => {
    const talk = new Talk(t);
    const discovered = resultOf(await talk.ask(rpc('server/discover', { _meta: meta() })));
    assert.deepEqual(discovered['supportedVersions'], ['2026-07-28', ...handshakes]);
    const { structuredContent } = await talk.callModern('request');
    const seen = { method: 'POST', url: 'stdio:', header: null, aborted: false };
    assert.deepEqual(structuredContent, { revision: '2026-07-28', hasSession: false, ...seen });
    assert.equal(await talk.end(), 0);
    assert.equal(await talk.keys(), 0);
  });

  test('T-150, T-160: both eras side by side, and one does not see the values of the other', async (t) => {
    const talk = new Talk(t);
    assert.ok('result' in (await talk.ask(rpc('server/discover', { _meta: meta() }))));
    assert.ok('result' in (await talk.ask(initialize('2025-06-18'))));
    assert.equal(textOf(await talk.call('count')), '1');
    assert.equal(textOf(await talk.callModern('count')), '0');
    assert.equal(textOf(await talk.call('count')), '2');
  });

  test('T-156: metadata without a version is not that of 2026-07-28', async (t) => {
    const talk = await Talk.begin(t, '2025-11-25');
    const _meta = { 'io.modelcontextprotocol/related-task': { taskId: 'x' } };
    const result = resultOf(await talk.ask(callOf('count', {}, 1, { _meta })));
    assert.equal(textOf(result), '1');
    assert.equal(result['resultType'], undefined);
  });

  test('an unknown version is answered with the newest that has a handshake', async (t) => {
    const talk = new Talk(t);
    assert.equal(resultOf(await talk.ask(initialize('2099-01-01')))['protocolVersion'], '2025-11-25');
  });

  test('before anything was agreed on only ping is answered', async (t) => {
    const talk = new Talk(t);
    assert.deepEqual(resultOf(await talk.ask(rpc('ping'))), {});
    for (const request of [rpc('tools/list'), callOf('count'), rpc('server/discover')]) {
      const { code, message } = errorOf(await talk.ask(request));
      assert.equal(code, -32600);
      assert.match(String(message), /begin with initialize, or name the protocol version in _meta/);
    }
    talk.send(notification('notifications/initialized'));
    talk.send({ jsonrpc: '2.0', id: 'nobody asked', result: {} });
    talk.send([rpc('ping')]);
    const { error, ...more } = await talk.next();
    assert.deepEqual(more, { jsonrpc: '2.0' });
    assert.match(String((error as { message: string }).message), /single message/);
    assert.ok('result' in (await talk.ask(initialize())));
  });

  test('a second initialize is refused and changes nothing; a failed one can be tried again', async (t) => {
    const talk = new Talk(t);
    const failed = errorOf(await talk.ask(rpc('initialize', { protocolVersion: '2025-11-25' }, 'init')));
    assert.equal(failed['code'], -32602);
    await talk.ask(initialize('2025-06-18'));
    assert.equal(textOf(await talk.call('count')), '1');
    const again = errorOf(await talk.ask(initialize('2025-11-25')));
    assert.deepEqual(again, { code: -32600, message: 'The session is initialized already' });
    assert.equal(textOf(await talk.call('count')), '2');
    await talk.end();
    assert.equal(await talk.keys(), 0);
  });

  test('what 2026-07-28 took away is unknown to it', async (t) => {
    const talk = new Talk(t);
    const asked = [
      rpc('initialize', { ...(initialize()['params'] as object), _meta: meta() }),
      rpc('ping', { _meta: meta() }),
      rpc('logging/setLevel', { level: 'info', _meta: meta() }),
      rpc('resources/subscribe', { uri: 'test://one', _meta: meta() }),
    ];
    for (const request of asked) assert.equal(errorOf(await talk.ask(request))['code'], -32601);
  });

  test('a 2026-07-28 request says what is wrong with its metadata', async (t) => {
    const talk = new Talk(t);
    const version = 'io.modelcontextprotocol/protocolVersion';
    const unknown = errorOf(await talk.ask(rpc('tools/list', { _meta: { ...meta(), [version]: '2027-01-01' } })));
    assert.equal(unknown['code'], -32022);
    assert.deepEqual(unknown['data'], { supported: ['2026-07-28', ...handshakes], requested: '2027-01-01' });
    const bare = errorOf(await talk.ask(rpc('tools/list', { _meta: { [version]: '2026-07-28' } })));
    assert.equal(bare['code'], -32602);
    assert.match(String(bare['message']), /clientCapabilities/);
  });

  test('T-151, T-152: mode stateful serves handshakes alone and says so', async (t) => {
    const talk = new Talk(t, { args: ['--mode', 'stateful'] });
    const { code, data } = errorOf(await talk.ask(rpc('server/discover', { _meta: meta() })));
    assert.equal(code, -32022);
    assert.deepEqual((data as { supported: unknown }).supported, handshakes);
    assert.ok('result' in (await talk.ask(initialize('2025-11-25'))));
    assert.equal(textOf(await talk.call('count')), '1');
  });

  test('T-153: mode stateless answers a handshake and stores nothing', async (t) => {
    const talk = new Talk(t, { args: ['--mode', 'stateless'] });
    const { protocolVersion, capabilities } = resultOf(await talk.ask(initialize('2025-11-25')));
    assert.equal(protocolVersion, '2025-11-25');
    assert.deepEqual(capabilities, { logging: {}, tools: {}, resources: {}, prompts: {} });
    const { structuredContent } = await talk.call('request');
    assert.equal((structuredContent as { hasSession: boolean }).hasSession, false);
    assert.equal(await talk.keys(), 0);
    assert.deepEqual(resultOf(await talk.ask(modernCall('echo', { text: 'a' })))['resultType'], 'complete');
  });
});
