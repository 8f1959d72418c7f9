import assert from 'node:assert/strict';
import test from 'node:test';
import * as z from 'zod';
import { elicit, NeedInput } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { serveFor } from '../support/served.ts';
import { begin, type Body, errorOf, Events, meta, modern, resultOf, rpc, send } from '../support/wire.ts';

const who = elicit('Who are you?', z.object({ name: z.string() }));
const versions = ['2025-06-18', '2025-11-25'];

/** A tool that asks for a name, keeps it in its session, and says what it knows. */
function naming(): Registry {
  const registry = new Registry({ name: 'test', version: '1' });
  registry.tool('name', { input: z.object({ greeting: z.string() }) }, async ({ greeting }, exchange) => {
    exchange.progress(1, 2);
    const answer = await exchange.ask('who', who);
    await exchange.session?.set('name', answer.content.name ?? '');
    exchange.progress(2, 2, String(answer.content.name));
    return `${greeting} ${answer.content.name}`;
  });
  registry.tool('known', {}, (_, { session }) => JSON.stringify(session?.get('name', null)));
  return registry;
}

const call = (more: Body = {}) => rpc('tools/call', { name: 'name', arguments: { greeting: 'hello' }, ...more }, 1);
const textOf = (message: Body | undefined) => JSON.stringify(resultOf(message ?? {})['content']);

for (const version of versions) {
  test(`clients of ${version} with equal ids, tokens and arguments do not hear of each other`, async (t) => {
    const { url } = await serveFor(t, naming());
    const names = ['Ann', 'Bob', 'Cid', 'Dot'];
    const clients = await Promise.all(
      names.map(async (name) => {
        const session = { 'Mcp-Session-Id': await begin(url, version, { elicitation: {} }) };
        const stream = await Events.open(url, session, call({ _meta: { progressToken: 1 } }));
        assert.equal((await stream.next())?.['method'], 'notifications/progress');
        return { name, session, stream, question: await stream.next() };
      }),
    );
    const ids = clients.map(({ question }) => String(question?.['id']));
    assert.equal(new Set(ids).size, clients.length);
    const reply = (id: string, name: string) => ({
      jsonrpc: '2.0',
      id,
      result: { action: 'accept', content: { name } },
    });
    // Everybody answers everybody else's question first, with a name that must not be taken.
    for (const { session } of clients) {
      for (const id of ids) {
        if (id === ids[clients.findIndex((client) => client.session === session)]) continue;
        assert.equal((await send(url, reply(id, 'Eve'), session)).status, 202);
      }
    }
    await Promise.all(
      clients.map(async ({ name, session, stream }, index) => {
        assert.equal((await send(url, reply(ids[index] ?? '', name), session)).status, 202);
        const progress = (await stream.next())?.['params'] as Body;
        assert.deepEqual(progress, { progressToken: 1, progress: 2, total: 2, message: name });
        const response = await stream.next();
        assert.equal(response?.['id'], 1);
        assert.match(textOf(response), new RegExp(`hello ${name}`));
        assert.equal(await stream.next(), undefined);
        const { body } = await send(url, rpc('tools/call', { name: 'known' }), session);
        assert.match(textOf(body), new RegExp(name));
      }),
    );
  });
}

test('row 25 row 33 what a handler saves with its question never travels, whatever the revision', async (t) => {
  const registry = new Registry({ name: 'test', version: '1' });
  registry.tool('t', {}, (_, exchange) => {
    const answer = exchange.answer('sure');
    if (answer === undefined) throw new NeedInput({ sure: elicit('Sure?') }, { state: { price: 'kept to ourselves' } });
    return JSON.stringify(exchange.state).length.toString();
  });
  const { url } = await serveFor(t, registry);
  const seen: unknown[] = [];
  for (const version of versions) {
    const session = { 'Mcp-Session-Id': await begin(url, version, { elicitation: {} }) };
    const stream = await Events.open(url, session, rpc('tools/call', { name: 't' }));
    const question = await stream.next();
    await send(url, { jsonrpc: '2.0', id: question?.['id'] ?? null, result: { action: 'accept' } }, session);
    const done = await stream.next();
    assert.match(textOf(done), /29/);
    seen.push(question, done);
  }
  const headers = modern('tools/call', 't');
  const params = { name: 't', _meta: meta({ elicitation: {} }) };
  const asked = await send(url, rpc('tools/call', params), headers);
  const { requestState = null } = resultOf(asked.body);
  const inputResponses = { sure: { action: 'accept' } };
  const done = await send(url, rpc('tools/call', { ...params, requestState, inputResponses }), headers);
  assert.match(textOf(done.body), /29/);
  seen.push(asked.text, done.text);
  assert.doesNotMatch(JSON.stringify(seen), /kept to ourselves|price/);
});

test('clients of 2026-07-28 with equal ids and arguments cannot use each other’s state', async (t) => {
  const authenticate = async ({ headers }: { readonly headers: { get(name: string): string | null } }) => {
    const [owner = '', namespace = ''] = (headers.get('authorization') ?? '').replace('Bearer ', '').split('@');
    return { owner, namespace };
  };
  const { url } = await serveFor(t, naming(), { authenticate });
  const people = ['alice-one@tenant-a', 'alice-one@tenant-b', 'bob-two@tenant-a'];
  const ask = (person: string, more: Body = {}) => {
    const headers = { ...modern('tools/call', 'name'), Authorization: `Bearer ${person}` };
    return send(url, call({ _meta: meta({ elicitation: {} }), ...more }), headers);
  };
  const states = new Map<string, string>();
  for (const person of people) {
    const asked = resultOf((await ask(person)).body);
    assert.equal(asked['resultType'], 'input_required');
    states.set(person, String(asked['requestState']));
  }
  assert.equal(new Set(states.values()).size, people.length);
  const answer = (name: string) => ({ who: { action: 'accept', content: { name } } });
  for (const person of people) {
    for (const [other, requestState] of states) {
      if (other === person) continue;
      const refused = await ask(person, { requestState, inputResponses: answer('Eve') });
      assert.equal(errorOf(refused.body)['code'], -32602);
      assert.equal(errorOf(refused.body)['message'], 'invalid requestState');
    }
  }
  for (const [person, requestState] of states) {
    const done = await ask(person, { requestState, inputResponses: answer(person) });
    assert.match(textOf(done.messages.at(-1)), new RegExp(`hello ${person}`));
  }
});
