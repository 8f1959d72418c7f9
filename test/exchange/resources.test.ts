import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { elicit, NeedInput } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { isSubscribed } from '../../host/subscriptions.ts';
import { everything, Host, modern, nobody } from '../support/call.ts';

const registry = new Registry({ name: 'test', version: '1' });
registry.resource('note://text', { name: 'text', title: 'Text', mimeType: 'text/plain', size: 2 }, () => 'hi');
registry.resource('note://bytes', {}, () => Uint8Array.of(0, 255));
registry.resource('note://json', {}, () => ({ a: 1 }));
registry.resource('note://gone', {}, () => undefined);
registry.resource('note://broken', {}, ({ length }) => {
  throw new Error(`no ink ${length}`);
});
registry.resource('note://asking', {}, async (uri, exchange) => {
  const { accepted } = await exchange.ask('sure', elicit('Sure?'));
  return `${uri} ${accepted}`;
});
registry.resource('note://whole', {}, (uri) => ({
  contents: [
    { uri, text: 'a' },
    { uri: `${uri}/b`, text: 'b' },
  ],
}));
registry.resourceTemplate(
  'city://{country}/{+path}{?lang,page}',
  {
    name: 'city',
    complete: {
      country: (value, chosen) => ['at', 'au', 'be'].filter((one) => one.startsWith(value) && one !== chosen.path),
    },
  },
  ({ country, path, lang, page }, _, uri) => JSON.stringify({ country, path, lang, page, uri }),
);
registry.resourceTemplate('file:///{name}.txt', {}, ({ name }) => (name === 'none' ? undefined : name));
registry.prompt(
  'trip',
  {
    title: 'Trip',
    description: 'Plans a trip.',
    arguments: z.object({
      to: z.string().min(2).describe('Where'),
      by: z.enum(['train', 'tram', 'bike']).optional(),
      style: z.string().default('short'),
    }),
    complete: { to: async (value) => Array.from({ length: 150 }, (_, index) => `${value}${index}`) },
  },
  ({ to, by, style }) => `To ${to} by ${by}, ${style}`,
);
registry.prompt('messages', {}, () => [{ role: 'assistant', content: { type: 'text', text: 'a' } }]);
registry.prompt('whole', { description: 'D' }, () => ({ description: 'E', messages: [] }));
registry.prompt('asking', {}, async (_, exchange) => (await exchange.ask('sure', elicit('Sure?'))).action);
registry.prompt('broken', {}, () => {
  throw new Error('no ink');
});
registry.prompt('nothing', {}, () => undefined as never);
registry.prompt(
  'curious',
  {
    arguments: z.object({ a: z.string() }),
    complete: {
      a: async (value, _, exchange) => {
        if (value === 'need') throw new NeedInput({ k: elicit('?') });
        return [(await exchange.ask('k', elicit('?'))).action];
      },
    },
  },
  () => '',
);

const host = new Host(registry);
const read = async (uri: unknown, options = {}) => host.request('resources/read', { uri: uri as string }, options);
const only = async (uri: string) => ((await read(uri)).contents as { uri: string; text: string }[])[0];

describe('resources', () => {
  test('are listed, templates apart', async () => {
    const { resources } = await host.request('resources/list', {});
    assert.deepEqual((resources as object[])[0], {
      uri: 'note://text',
      name: 'text',
      title: 'Text',
      mimeType: 'text/plain',
      size: 2,
    });
    assert.deepEqual((resources as object[])[1], { uri: 'note://bytes', name: 'note://bytes' });
    const { resourceTemplates } = await host.request('resources/templates/list', {});
    assert.deepEqual(
      (resourceTemplates as { uriTemplate: string }[]).map(({ uriTemplate }) => uriTemplate),
      ['city://{country}/{+path}{?lang,page}', 'file:///{name}.txt'],
    );
  });

  test('are text, bytes, JSON or whole contents', async () => {
    assert.deepEqual(await only('note://text'), { uri: 'note://text', mimeType: 'text/plain', text: 'hi' });
    const bytes = { uri: 'note://bytes', mimeType: 'application/octet-stream', blob: 'AP8=' };
    assert.deepEqual(await only('note://bytes'), bytes);
    assert.deepEqual(await only('note://json'), { uri: 'note://json', mimeType: 'application/json', text: '{"a":1}' });
    assert.equal(((await read('note://whole')).contents as object[]).length, 2);
  });

  test('of a template get the variables of their URI', async () => {
    const variables = async (uri: string) => JSON.parse((await only(uri))?.text ?? '');
    const uri = 'city://at/wien/1%2F2?page=2&lang=de%20at';
    assert.deepEqual(await variables(uri), { country: 'at', path: 'wien/1/2', lang: 'de at', page: '2', uri });
    assert.deepEqual(await variables('city://at/x'), { country: 'at', path: 'x', uri: 'city://at/x' });
    assert.equal((await only('file:///a%20b.txt'))?.text, 'a b');
  });

  test('that are not there are an error, of another code on 2026-07-28', async () => {
    const absent = ['note://x', 'note://gone', 'city://at', 'file:///none.txt', 'file:///%zz.txt', 'file:///a/b.txt'];
    for (const uri of absent) {
      await assert.rejects(read(uri), { code: -32002, data: { uri } });
      await assert.rejects(read(uri, { revision: modern }), { code: -32602, data: { uri } });
    }
    for (const odd of [undefined, null, 5, `note://${'x'.repeat(5000)}`])
      await assert.rejects(read(odd), { code: -32602 });
  });

  test('that fail are an error with the message', async () => {
    await assert.rejects(read('note://broken'), { code: -32603, message: 'no ink 13' });
  });

  test('may ask first', async () => {
    const options = { revision: modern, capabilities: everything };
    const asked = await read('note://asking', options);
    assert.equal(asked.resultType, 'input_required');
    const { requestState = null } = asked;
    const retry = { uri: 'note://asking', requestState, inputResponses: { sure: { action: 'accept' } } };
    const { contents } = await host.request('resources/read', retry, options);
    assert.equal((contents as { text: string }[])[0]?.text, 'note://asking true');
    await assert.rejects(read('note://asking'), { code: -32603, message: /cannot be asked/ });
    await assert.rejects(read('note://asking', { revision: modern }), { code: -32021 });
  });

  test('row 21 row 66 are subscribed to by a session, which any process knows and this one tells', async () => {
    const session = await host.begin();
    const heard: unknown[] = [];
    const stop = host.hub.subscribe(({ params }, id) => heard.push([params?.uri, id]));
    const options = { session };
    const uris = ['note://text', 'note://json', 'city://at/x'];
    await Promise.all(uris.map((uri) => host.request('resources/subscribe', { uri }, options)));
    await host.request('resources/subscribe', { uri: 'note://text' }, options);
    const loaded = async () => (await host.sessions.open('session', nobody, session.id)) ?? session;
    const known = await loaded();
    assert.deepEqual(
      uris.map((uri) => isSubscribed(known, uri)),
      [true, true, true],
    );
    registry.announceUpdate('note://text');
    assert.deepEqual(heard.splice(0), [
      ['note://text', undefined],
      ['note://text', session.id],
    ]);
    assert.deepEqual(await host.request('resources/unsubscribe', { uri: 'note://text' }, options), {});
    assert.equal(isSubscribed(await loaded(), 'note://text'), false);
    registry.announceUpdate('note://text');
    assert.deepEqual(heard.splice(0), [['note://text', undefined]]);
    await session.delete();
    registry.announceUpdate('note://json');
    assert.deepEqual(heard.splice(0), [['note://json', undefined]]);
    stop();
  });

  test('cannot be subscribed to without a session, nor if they are not there', async () => {
    const uri = 'note://text';
    await assert.rejects(host.request('resources/subscribe', { uri }), { code: -32602, message: /needs a session/ });
    const session = await host.begin();
    await assert.rejects(host.request('resources/subscribe', { uri: 'note://x' }, { session }), { code: -32002 });
    await assert.rejects(host.request('resources/subscribe', {}, { session }), { code: -32602 });
    const options = { session, revision: modern };
    await assert.rejects(host.request('resources/subscribe', { uri }, options), { code: -32601 });
  });
});

describe('prompts', () => {
  const get = (name: string, args: object | undefined = {}, options = {}) =>
    host.request('prompts/get', { name, arguments: args as never }, options);

  test('are listed with their arguments', async () => {
    const { prompts } = await host.request('prompts/list', {});
    assert.deepEqual((prompts as object[])[0], {
      name: 'trip',
      title: 'Trip',
      description: 'Plans a trip.',
      arguments: [
        { name: 'to', description: 'Where', required: true },
        { name: 'by', required: false },
        { name: 'style', required: false },
      ],
    });
    assert.deepEqual((prompts as object[])[1], { name: 'messages' });
  });

  test('are the user’s words, messages or a whole result', async () => {
    const text = 'To Rome by train, short';
    assert.deepEqual(await get('trip', { to: 'Rome', by: 'train' }), {
      description: 'Plans a trip.',
      messages: [{ role: 'user', content: { type: 'text', text } }],
    });
    const messages = [{ role: 'assistant', content: { type: 'text', text: 'a' } }];
    assert.deepEqual(await get('messages'), { messages });
    assert.deepEqual(await get('whole'), { description: 'E', messages: [] });
  });

  test('with wrong arguments, unknown or failing, are an error', async () => {
    await assert.rejects(get('trip'), { code: -32602, message: /to: / });
    await assert.rejects(get('trip', { to: 'R', by: 'car' }), { code: -32602, message: /to: .*by: / });
    await assert.rejects(get('trip', []), { code: -32602 });
    await assert.rejects(get('x'), { code: -32602, message: 'Unknown prompt' });
    await assert.rejects(get('broken'), { code: -32603, message: 'no ink' });
    await assert.rejects(get('nothing'), { code: -32603, message: /neither text nor messages/ });
  });

  test('may ask first', async () => {
    const options = { revision: modern, capabilities: everything };
    const { requestState = null, inputRequests } = await get('asking', {}, options);
    assert.deepEqual(Object.keys(inputRequests as object), ['sure']);
    const more = { requestState, inputResponses: { sure: { action: 'decline' } } };
    const done = await host.request('prompts/get', { name: 'asking', arguments: {}, ...more }, options);
    assert.match(JSON.stringify(done.messages), /decline/);
  });
});

describe('completion', () => {
  const complete = async (ref: object, name: string, value: string, more = {}, options = {}) => {
    const params = { ref: ref as never, argument: { name, value }, ...more };
    const { completion } = await host.request('completion/complete', params, options);
    return completion as { values: string[]; total: number; hasMore: boolean };
  };
  const trip = { type: 'ref/prompt', name: 'trip' };
  const city = { type: 'ref/resource', uri: 'city://{country}/{+path}{?lang,page}' };

  test('suggests at most a hundred values, and says how many there are', async () => {
    const { values, total, hasMore } = await complete(trip, 'to', 'R');
    assert.deepEqual([values.length, values[0], total, hasMore], [100, 'R0', 150, true]);
  });

  test('knows choices by themselves, and nothing of arguments without any', async () => {
    assert.deepEqual((await complete(trip, 'by', 'tra')).values, ['train', 'tram']);
    for (const name of ['style', 'x', 'constructor']) {
      assert.deepEqual(await complete(trip, name, 'x'), { values: [], total: 0, hasMore: false });
    }
  });

  test('of a template’s variable sees what was chosen', async () => {
    assert.deepEqual((await complete(city, 'country', 'a')).values, ['at', 'au']);
    const context = { arguments: { path: 'at' } };
    assert.deepEqual((await complete(city, 'country', 'a', { context })).values, ['au']);
  });

  test('of what does not exist, or malformed, is an error; it never asks', async () => {
    await assert.rejects(complete({ type: 'ref/prompt', name: 'x' }, 'a', ''), { code: -32602 });
    await assert.rejects(complete({ type: 'ref/resource', uri: 'x' }, 'a', ''), { code: -32602 });
    await assert.rejects(complete({ type: 'ref/x' }, 'a', ''), { code: -32602 });
    await assert.rejects(host.request('completion/complete', { ref: trip }), { code: -32602 });
    const curious = { type: 'ref/prompt', name: 'curious' };
    const options = { revision: modern, capabilities: everything };
    for (const value of ['ask', 'need']) {
      const asked = complete(curious, 'a', value, {}, options);
      await assert.rejects(asked, { code: -32603, message: /cannot be asked during this request/ });
    }
  });
});
