import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import demo from '../../host/demo.ts';
import { everything, Host, modern, textOf } from '../support/call.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';

type Visit = { handle: string; seen: string[] };
type List = { name: string; inputSchema: { properties: object } }[];

describe('the demo app', () => {
  test('remembers in the session of the protocol', async () => {
    const host = new Host(demo);
    const session = await host.begin();
    assert.equal(textOf(await host.tool('remember', { what: 'a' }, { session })), '1 so far');
    const again = await host.sessions.open('session', { namespace: '', owner: undefined }, session.id);
    assert.equal(textOf(await host.tool('remember', { what: 'b' }, { session: again ?? null })), '2 so far');
  });

  test('row 10 loses nothing when forty remember at once', async () => {
    const host = new Host(demo);
    const session = await host.begin();
    const texts = await Promise.all(
      Array.from({ length: 40 }, async (_, index) =>
        textOf(await host.tool('remember', { what: `${index}` }, { session })),
      ),
    );
    assert.equal(texts.filter((text) => text.endsWith(' so far')).length, 40);
    const last = await host.tool('visit', { what: 'last' }, { session });
    assert.equal((last.structuredContent as Visit).seen.length, 41);
  });

  test('row 12 counts exactly: ten bumps at once, and one more is 11', async () => {
    const host = new Host(demo);
    const session = await host.begin();
    const counts = await Promise.all(Array.from({ length: 10 }, () => host.tool('bump', {}, { session })));
    assert.deepEqual(
      counts.map((count) => Number(textOf(count))).sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
    assert.equal(textOf(await host.tool('bump', {}, { session })), '11');
  });

  test('row 2 row 3 without a session, remember and bump begin anew, and visit goes on by its handle', async () => {
    const host = new Host(demo);
    assert.equal(textOf(await host.tool('remember', { what: 'a' }, { revision: modern })), '1 so far');
    assert.equal(textOf(await host.tool('bump', {}, { revision: modern })), '1');
    const first = (await host.tool('visit', { what: 'a' }, { revision: modern })).structuredContent as Visit;
    const { handle } = first;
    const second = await host.tool('visit', { what: 'b', handle }, { revision: modern });
    assert.deepEqual(second.structuredContent, { handle, seen: ['a', 'b'] });
  });

  test('with a session, visit needs no handle', async () => {
    const host = new Host(demo);
    const session = await host.begin();
    await host.tool('visit', { what: 'a' }, { session });
    const second = (await host.tool('visit', { what: 'b' }, { session })).structuredContent as Visit;
    assert.deepEqual(second, { handle: session.id, seen: ['a', 'b'] });
  });

  test('a handle that is invented, expired or somebody else’s begins a new list', async () => {
    const host = new Host(demo);
    const alice = { namespace: '', owner: 'alice' };
    const visit = async (handle: string, owner = alice) =>
      (await host.tool('visit', { what: 'x', handle }, { revision: modern, scope: owner })).structuredContent as Visit;
    const { handle } = await visit('invented');
    assert.equal((await visit(handle)).seen.length, 2);
    assert.equal((await visit(handle, { namespace: '', owner: 'bob' })).seen.length, 1);
    assert.equal((await visit(handle, { namespace: 'other', owner: 'alice' })).seen.length, 1);
    host.clock.time += 3_600_000;
    assert.equal((await visit(handle)).seen.length, 1);
  });

  test('row 34 shows arguments alone', async () => {
    const { tools } = await new Host(demo).request('tools/list', {});
    const shown = (tools as unknown as List).map(({ name, inputSchema }) => [
      name,
      Object.keys(inputSchema.properties),
    ]);
    assert.deepEqual(Object.fromEntries(shown), {
      remember: ['what'],
      visit: ['what', 'handle'],
      bump: [],
      purge: ['name'],
      process: ['steps'],
      whoami: [],
    });
  });

  test('tells of its progress after each step', async () => {
    const host = new Host(demo);
    const call = host.call('tools/call', { name: 'process', arguments: { steps: 3 } }, { progressToken: 'p' });
    assert.equal(textOf(await call.run()), 'processed 3 steps');
    assert.deepEqual(
      call.sent.map(({ method, params }) => [method, params?.progressToken, params?.progress, params?.total]),
      [1, 2, 3].map((step) => ['notifications/progress', 'p', step, 3]),
    );
    assert.equal((await host.tool('process', { steps: 0 })).isError, true);
    assert.equal((await host.tool('process', { steps: 101 })).isError, true);
  });

  test('row 35 finding 21 knows its client on every revision', async () => {
    const host = new Host(demo);
    const scope = { namespace: '', owner: 'alice' };
    for (const revision of ['2025-03-26', '2025-06-18', '2025-11-25', modern] as const) {
      const anonymous = await host.tool('whoami', {}, { revision });
      assert.deepEqual(anonymous.structuredContent, { name: 'test', version: '1.2', revision });
      const known = await host.tool('whoami', {}, { revision, scope });
      assert.deepEqual(known.structuredContent, { name: 'test', version: '1.2', revision, owner: 'alice' });
    }
  });

  for (const revision of ['2025-06-18', '2025-11-25'] as const) {
    test(`row 35 purges after a question on the stream of ${revision}`, async () => {
      const host = new Host(demo);
      const session = await host.begin();
      const options = { revision, session, capabilities: everything };
      const purge = async (user: () => { action: string }) =>
        textOf(await host.tool('purge', { name: 'cache' }, { ...options, user }));
      assert.equal(await purge(() => ({ action: 'accept' })), 'purged CACHE');
      assert.match(await purge(() => ({ action: 'decline' })), /declined/);
      assert.match(await purge(() => ({ action: 'cancel' })), /cancelled/);
    });
  }

  test('row 35 purges after a question in the result of 2026-07-28, on any node, once, and only what was asked about', async () => {
    const bucket = new MemoryBucket();
    const [one, two] = [new Host(demo, bucket), new Host(demo, bucket)];
    const options = { revision: modern, capabilities: everything };
    const asked = await one.tool('purge', { name: 'cache' }, options);
    assert.equal(asked.resultType, 'input_required');
    const { confirm } = asked.inputRequests as { confirm: { method: string; params: object } };
    assert.deepEqual(confirm, {
      method: 'elicitation/create',
      params: { mode: 'form', message: 'Purge cache?', requestedSchema: { type: 'object', properties: {} } },
    });
    const more = { requestState: asked.requestState ?? null, inputResponses: { confirm: { action: 'accept' } } };
    const refused = { code: -32602, message: 'invalid requestState' };
    await assert.rejects(two.tool('purge', { name: 'database' }, { ...options, more }), refused);
    assert.equal(textOf(await two.tool('purge', { name: 'cache' }, { ...options, more })), 'purged CACHE');
    await assert.rejects(one.tool('purge', { name: 'cache' }, { ...options, more }), refused);
  });
});
