import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { BucketError } from '../../host/bucket/bucket.ts';
import { RpcError } from '../../host/call.ts';
import { Registry } from '../../host/registry.ts';
import { failureIn, Host, modern, nobody, textOf } from '../support/call.ts';
import { SwitchedBucket } from '../support/buckets.ts';

const empty = () => new Registry({ name: 'test', version: '1' });

describe('what is registered', () => {
  test('is refused if its name is taken or bad, or its schema cannot be shown', () => {
    const registry = empty();
    registry.tool('a', {}, () => '');
    const bad = (run: () => void, message: RegExp) => assert.throws(run, { name: 'TypeError', message });
    bad(() => registry.tool('a', {}, () => ''), /tool "a": there is one of that name already/);
    bad(() => registry.tool('', {}, () => ''), /expected a name/);
    bad(() => registry.tool('a b', {}, () => ''), /expected a name/);
    bad(() => registry.tool('x'.repeat(129), {}, () => ''), /expected a name/);
    bad(() => registry.tool('date', { input: z.object({ at: z.date() }) }, () => ''), /tool "date": its input.*Date/);
    bad(() => registry.tool('raw', { input: { type: 'object' } as never }, () => ''), /expected an object of Zod 4/);
    bad(() => registry.tool('text', { input: z.string() as never }, () => ''), /expected an object of Zod 4/);
    bad(() => registry.tool('none', {}, undefined as never), /expected a handler/);
    bad(() => registry.resource('no uri', {}, () => ''), /expected an absolute URI/);
    bad(() => registry.resourceTemplate('n://x', {}, () => ''), /expected a variable/);
    bad(() => registry.resourceTemplate('n://{a}{b}', {}, () => ''), /text between two variables/);
    bad(() => registry.resourceTemplate('n://{#a}', {}, () => ''), /expected \{name\}/);
    bad(() => registry.resourceTemplate('n://{a}/{a}', {}, () => ''), /different names/);
    bad(() => registry.resourceTemplate('{a}', {}, () => ''), /absolute/);
    bad(() => registry.prompt('\n', {}, () => ''), /expected a name/);
    bad(() => registry.prompt('n', { arguments: z.object({ n: z.number() }) }, () => ''), /argument "n".*text/);
    const complete = { b: () => [] } as never;
    bad(() => registry.prompt('c', { arguments: z.object({ a: z.string() }), complete }, () => ''), /completes "b"/);
    bad(() => new Registry({ name: '', version: '1' }), /expected a name/);
    assert.deepEqual([...registry.tools.keys()], ['a']);
    assert.equal(registry.resources.size + registry.templates.size + registry.prompts.size, 0);
  });

  test('row 81 is listed in its order, page by page, every entry once', async () => {
    const registry = empty();
    const names = Array.from({ length: 250 }, (_, index) => `t${(index * 7) % 250}`);
    for (const name of names) registry.tool(name, {}, () => name);
    const host = new Host(registry);
    const seen: unknown[] = [];
    let cursor: unknown;
    do {
      const params: { [name: string]: string } = cursor === undefined ? {} : { cursor: String(cursor) };
      const { tools, nextCursor } = await host.request('tools/list', params);
      seen.push(...(tools as { name: string }[]).map(({ name }) => name));
      cursor = nextCursor;
    } while (cursor !== undefined);
    assert.deepEqual(seen, names);
    for (const bad of ['', 'x', 'dG9vbHM', null, 5, `${Buffer.from('tools t3').toString('base64url')}!`]) {
      await assert.rejects(host.request('tools/list', { cursor: bad }), { code: -32602, message: /cursor/ });
    }
  });

  test('is listed with its schemas in JSON Schema 2020-12', async () => {
    const registry = empty();
    const input = z.object({ n: z.int().default(1), s: z.string().describe('words').optional() });
    const options = { title: 'T', description: 'D', input, output: z.object({ ok: z.boolean() }) };
    registry.tool('t', { ...options, annotations: { readOnlyHint: true } }, () => ({ ok: true }));
    const { tools } = await new Host(registry).request('tools/list', {});
    const [tool] = tools as unknown as { inputSchema: object; outputSchema: object }[];
    const { inputSchema, outputSchema, ...rest } = tool ?? {};
    assert.deepEqual(rest, { name: 't', title: 'T', description: 'D', annotations: { readOnlyHint: true } });
    const [shownInput, shownOutput] = [inputSchema, outputSchema] as Record<string, unknown>[];
    assert.equal(shownInput?.$schema, 'https://json-schema.org/draft/2020-12/schema');
    assert.deepEqual(Object.keys(shownInput?.properties ?? {}), ['n', 's']);
    assert.equal(shownInput?.required, undefined);
    assert.deepEqual(shownOutput?.required, ['ok']);
  });

  test('decides what the server says it can, and what it answers', () => {
    const registry = empty();
    const { dispatcher } = new Host(registry);
    assert.deepEqual(dispatcher.describe(modern, true).capabilities, { logging: {} });
    assert.equal(dispatcher.implements('tools/call', modern), false);
    registry.tool('t', {}, () => '');
    registry.resource('n://a', {}, () => '');
    registry.prompt('p', { arguments: z.object({ a: z.enum(['x']) }) }, () => '');
    const changes = { listChanged: true };
    assert.deepEqual(dispatcher.describe('2025-11-25', true).capabilities, {
      logging: {},
      tools: changes,
      resources: { subscribe: true, listChanged: true },
      prompts: changes,
      completions: {},
    });
    assert.deepEqual(dispatcher.describe('2025-11-25', false).capabilities.tools, {});
    assert.equal(dispatcher.implements('resources/subscribe', '2025-11-25'), true);
    assert.equal(dispatcher.implements('resources/subscribe', modern), false);
    assert.equal(dispatcher.implements('sampling/createMessage', modern), false);
  });

  test('is announced when it comes late', () => {
    const registry = empty();
    const { hub, dispatcher } = new Host(registry);
    const heard: string[] = [];
    hub.subscribe(({ method }) => heard.push(method));
    registry.tool('t', {}, () => '');
    registry.resource('n://a', {}, () => '');
    registry.prompt('p', {}, () => '');
    registry.announceUpdate('n://a');
    dispatcher.close();
    registry.tool('u', {}, () => '');
    assert.deepEqual(heard, [
      'notifications/tools/list_changed',
      'notifications/resources/list_changed',
      'notifications/prompts/list_changed',
      'notifications/resources/updated',
    ]);
  });
});

describe('what is taken back', () => {
  test('is gone from its list, is announced once, and its name is free again', async () => {
    const registry = empty();
    const host = new Host(registry);
    const heard: string[] = [];
    host.hub.subscribe(({ method }) => heard.push(method));
    const first = registry.tool('t', {}, () => 'old');
    first.remove();
    first.remove();
    assert.deepEqual(await host.request('tools/list', {}), { tools: [] });
    await assert.rejects(host.tool('t', {}), { code: -32602, message: 'Unknown tool' });
    registry.tool('t', {}, () => 'new');
    first.remove();
    assert.deepEqual(await host.tool('t', {}), { content: [{ type: 'text', text: 'new' }] });
    assert.deepEqual(heard, Array(3).fill('notifications/tools/list_changed'));
  });
});

describe('a tool', () => {
  const answering = async (returned: unknown, output?: z.ZodObject, revision = modern) => {
    const registry = empty();
    registry.tool('t', output === undefined ? {} : { output }, () => returned as never);
    return await new Host(registry).tool('t', {}, { revision });
  };

  test('answers text as text, and a value as text and structure', async () => {
    assert.deepEqual(await answering('hi'), { content: [{ type: 'text', text: 'hi' }] });
    const value = { a: [1] };
    assert.deepEqual(await answering(value), {
      content: [{ type: 'text', text: '{"a":[1]}' }],
      structuredContent: value,
    });
    assert.deepEqual(await answering(11), { content: [{ type: 'text', text: '11' }] });
    assert.deepEqual(await answering([1, 'b']), { content: [{ type: 'text', text: '[1,"b"]' }] });
    assert.deepEqual(await answering(undefined), { content: [] });
    assert.deepEqual(await answering({ content: 'of a book' }), {
      content: [{ type: 'text', text: '{"content":"of a book"}' }],
      structuredContent: { content: 'of a book' },
    });
    assert.deepEqual((await answering({ content: [1] })).structuredContent, { content: [1] });
  });

  test('answers images, sound and links as they are', async () => {
    const link = { type: 'resource_link', uri: 'n://a', name: 'a' };
    const ready = { content: [{ type: 'image', data: 'AA==', mimeType: 'image/png' }, link], _meta: { x: 1 } };
    assert.deepEqual(await answering(ready), ready);
    const old = await answering({ content: [link] }, undefined, '2025-03-26' as never);
    assert.deepEqual(old, { content: [{ type: 'text', text: 'a: n://a' }] });
  });

  test('answers what its output schema promised, or an error', async () => {
    const output = z.object({ n: z.number() });
    assert.deepEqual((await answering({ n: 1, secret: 'x' }, output)).structuredContent, { n: 1 });
    const ready = { content: [{ type: 'text', text: 'one' }], structuredContent: { n: 1 } };
    assert.deepEqual(await answering(ready, output), ready);
    const more = { ...ready, structuredContent: { n: 1, secret: 'x' } };
    assert.deepEqual(await answering(more, output), ready);
    for (const wrong of ['text', { n: 'one' }, { content: [] }, undefined]) {
      const failure = failureIn(await answering(wrong, output));
      assert.match(failure ?? '', /does not fit its schema/);
      assert.doesNotMatch(failure ?? '', /one/);
    }
    const failure = { content: [{ type: 'text', text: 'no' }], isError: true };
    assert.deepEqual(await answering(failure, output), failure);
  });

  test('is not run with wrong arguments: the result names what is wrong', async () => {
    const registry = empty();
    let runs = 0;
    registry.tool('t', { input: z.object({ list: z.array(z.int()), s: z.string() }) }, () => `${++runs}`);
    const host = new Host(registry);
    const failure = failureIn(await host.tool('t', { list: [1, 'x'] })) ?? '';
    assert.match(failure, /list\.1: .*number/);
    assert.match(failure, /s: .*string/);
    assert.match(failureIn(await host.request('tools/call', { name: 't' })) ?? '', /list/);
    for (const given of [null, [], 'x', 1]) {
      await assert.rejects(host.request('tools/call', { name: 't', arguments: given }), { code: -32602 });
    }
    assert.equal(runs, 0);
    assert.equal(textOf(await host.tool('t', { list: [], s: '', more: true })), '1');
  });

  test('has a handler that is typed by its schemas', () => {
    const registry = empty();
    const options = { input: z.object({ n: z.int() }), output: z.object({ twice: z.number() }) };
    registry.tool('twice', options, ({ n }) => ({ twice: n * 2 }));
    // @ts-expect-error: the output schema says that it is a number
    registry.tool('text', options, ({ n }) => ({ twice: `${n}` }));
    // @ts-expect-error: there is no such argument
    registry.tool('other', options, ({ m }) => ({ twice: m }));
    registry.resourceTemplate('n://{a}/{+b}{?c,d}', {}, ({ a, b, c, d }) => a + b + c + d);
    // @ts-expect-error: there is no such variable
    registry.resourceTemplate('n://{a}', {}, ({ b }) => b);
    assert.deepEqual([...registry.tools.keys()], ['twice', 'text', 'other']);
  });

  test('row 55 that does not exist is an error, not a result', async () => {
    const registry = empty();
    registry.tool('t', {}, () => '');
    const host = new Host(registry);
    for (const name of ['u', 'constructor', '__proto__', 1, null]) {
      await assert.rejects(host.request('tools/call', { name }), { code: -32602, message: 'Unknown tool' });
    }
    await assert.rejects(host.request('tools/fetch', {}), { code: -32601 });
  });

  test('row 55 finding 18 that throws gives an error result with its message, without ids', async () => {
    const registry = empty();
    registry.tool('error', {}, () => {
      throw new Error('out of paper');
    });
    registry.tool('odd', {}, () => {
      throw 'secret';
    });
    registry.tool('ids', {}, async (_, exchange) => {
      const handle = await exchange.sessions.open();
      throw new Error(`no paper in ${exchange.session?.id} and ${handle.id}`);
    });
    registry.tool('protocol', {}, () => {
      throw new RpcError(-32099, 'mine', { a: 1 });
    });
    registry.tool('cycle', {}, () => {
      const cycle: { self?: object } = {};
      cycle.self = cycle;
      return cycle;
    });
    const host = new Host(registry);
    const session = await host.begin();
    assert.equal(failureIn(await host.tool('error')), 'out of paper');
    assert.equal(failureIn(await host.tool('odd')), 'the handler failed');
    assert.equal(failureIn(await host.tool('ids', {}, { session })), 'no paper in [id] and [id]');
    assert.match(failureIn(await host.tool('cycle')) ?? '', /circular/);
    await assert.rejects(host.tool('protocol'), { code: -32099, message: 'mine', data: { a: 1 } });
  });

  test('whose session is gone says so, and one whose store is down fails as the store does', async () => {
    const registry = empty();
    registry.tool('write', {}, async (_, { session }) => {
      await session?.set('secret key', 'secret value');
      return 'written';
    });
    const bucket = new SwitchedBucket();
    const host = new Host(registry, bucket);
    const session = await host.begin();
    const other = await host.sessions.open('session', nobody, session.id);
    bucket.down = true;
    await assert.rejects(host.tool('write', {}, { session }), BucketError);
    bucket.down = false;
    await other?.delete();
    const failure = failureIn(await host.tool('write', {}, { session })) ?? '';
    assert.match(failure, /the session is gone/);
    assert.doesNotMatch(failure, new RegExp(`secret|${session.id}`));
  });
});
