import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { elicit, elicitUrl, listRoots, NeedInput, sample } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { type CallOptions, everything, failureIn, Host, modern, nobody, textOf } from '../support/call.ts';

type Members = Record<string, never>;
const age = elicit('How old?', z.object({ age: z.int() }));
const invalid = { name: 'RpcError', code: -32602, message: 'invalid requestState' };
const accept = (content: object = {}) => ({ action: 'accept', content });

/** The retry that brings answers to what `asked` asked. */
function retry(asked: { readonly [name: string]: unknown }, inputResponses: object | null) {
  return { requestState: asked.requestState as string, inputResponses: inputResponses as Members };
}

interface Counted {
  readonly registry: Registry;
  /** How often the effect behind the question happened. */
  effects: number;
}

/** A tool that asks one thing, and has an effect. */
function birthday(): Counted {
  const registry = new Registry({ name: 'test', version: '1' });
  const counted: Counted = { registry, effects: 0 };
  registry.tool('birthday', { input: z.object({ name: z.string() }) }, async ({ name }, exchange) => {
    const answer = await exchange.ask('age', age);
    if (!answer.accepted) return answer.action;
    counted.effects++;
    return `${name} is ${answer.content.age}`;
  });
  return counted;
}

const options: CallOptions = { revision: modern, capabilities: everything };

describe('a question in a result', () => {
  test('row 25 row 36 is asked under its key, and the state is an id that nobody guesses', async () => {
    const { registry } = birthday();
    const host = new Host(registry);
    const asked = await host.tool('birthday', { name: 'Ada' }, options);
    assert.deepEqual(Object.keys(asked).sort(), ['inputRequests', 'requestState', 'resultType']);
    const { age: request } = asked.inputRequests as { age: object };
    assert.deepEqual(Object.keys(request).sort(), ['method', 'params']);
    assert.match(String(asked.requestState), /^[A-Za-z0-9_-]{32}$/);
    const done = await host.tool(
      'birthday',
      { name: 'Ada' },
      { ...options, more: retry(asked, { age: accept({ age: 7 }) }) },
    );
    assert.equal(textOf(done), 'Ada is 7');
  });

  test('row 28 row 31 finding 2 has its effect once: of many retries at once, on three nodes, one runs', async () => {
    const bucket = new MemoryBucket();
    const apps = [birthday(), birthday(), birthday()];
    const hosts = apps.map(({ registry }) => new Host(registry, bucket));
    const asked = await hosts[0]?.tool('birthday', { name: 'Ada' }, options);
    const more = retry(asked ?? {}, { age: accept({ age: 7 }) });
    const outcomes = await Promise.allSettled(
      hosts.flatMap((host) =>
        Array.from({ length: 5 }, () => host.tool('birthday', { name: 'Ada' }, { ...options, more })),
      ),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const outcome of outcomes) if (outcome.status === 'rejected') assert.equal(outcome.reason.code, -32602);
    assert.equal(
      apps.reduce((sum, { effects }) => sum + effects, 0),
      1,
    );
  });

  test('row 26 row 29 row 32 is refused in any other place, and that does not spend it', async () => {
    const counted = birthday();
    const { registry } = counted;
    registry.tool('other', { input: z.object({ name: z.string() }) }, (_, { state }) => String(state));
    registry.prompt('birthday', { arguments: z.object({ name: z.string() }) }, () => 'x');
    const host = new Host(registry);
    const asked = await host.tool('birthday', { name: 'Ada' }, options);
    const more = retry(asked, { age: accept({ age: 7 }) });
    const name = 'Ada';
    await assert.rejects(host.tool('birthday', { name: 'Bob' }, { ...options, more }), invalid);
    await assert.rejects(host.tool('birthday', { name, more: 1 }, { ...options, more }), invalid);
    await assert.rejects(host.tool('other', { name }, { ...options, more }), invalid);
    const prompt = { name: 'birthday', arguments: { name }, ...more };
    await assert.rejects(host.request('prompts/get', prompt, options), invalid);
    for (const scope of [
      { namespace: '', owner: 'mallory' },
      { namespace: 'n', owner: undefined },
    ]) {
      await assert.rejects(host.tool('birthday', { name }, { ...options, scope, more }), invalid);
    }
    for (const odd of [`${more.requestState}-TAMPERED`, '', 'x', 5, {}, ['a']]) {
      const tampered = { ...more, requestState: odd as never };
      await assert.rejects(host.tool('birthday', { name }, { ...options, more: tampered }), invalid);
    }
    const session = await host.begin();
    const handle = await host.sessions.create('handle', nobody, {});
    for (const id of [session.id, handle.id]) {
      const wrong = { ...more, requestState: id };
      await assert.rejects(host.tool('birthday', { name }, { ...options, more: wrong }), invalid);
    }
    assert.equal(counted.effects, 0);
    assert.equal(textOf(await host.tool('birthday', { name }, { ...options, more })), 'Ada is 7');
    await assert.rejects(host.tool('birthday', { name }, { ...options, more }), invalid);
    assert.equal(counted.effects, 1);
  });

  test('row 27 is refused from the moment its ten minutes are over', async () => {
    const host = new Host(birthday().registry);
    for (const [later, fits] of [
      [599_999, true],
      [600_000, false],
    ] as const) {
      const asked = await host.tool('birthday', { name: 'Ada' }, options);
      host.clock.time += later;
      const more = retry(asked, { age: accept({ age: 7 }) });
      const answered = host.tool('birthday', { name: 'Ada' }, { ...options, more });
      if (fits) assert.equal(textOf(await answered), 'Ada is 7');
      else await assert.rejects(answered, invalid);
    }
  });

  test('row 41 is asked again, under a new id, without an answer that fits it', async () => {
    const counted = birthday();
    const host = new Host(counted.registry);
    let asked = await host.tool('birthday', { name: 'Ada' }, options);
    const ids = new Set([asked.requestState]);
    const unfitting = [{ age: 'seven' }, { age: 1.5 }, { age: { a: 1 } }, {}].map((content) => ({
      age: accept(content),
    }));
    for (const responses of [...unfitting, { other: accept({ age: 7 }) }, {}, { age: { action: 'accept' } }]) {
      asked = await host.tool('birthday', { name: 'Ada' }, { ...options, more: retry(asked, responses) });
      assert.equal(asked.resultType, 'input_required');
      ids.add(asked.requestState);
    }
    assert.equal(ids.size, 8);
    const more = retry(asked, { age: accept({ age: 7, extra: 1 }), other: 5 });
    assert.equal(textOf(await host.tool('birthday', { name: 'Ada' }, { ...options, more })), 'Ada is 7');
  });

  test('gets an error for answers of a wrong shape, which spends nothing', async () => {
    const counted = birthday();
    const host = new Host(counted.registry);
    const asked = await host.tool('birthday', { name: 'Ada' }, options);
    const odd = [12345, 'accept', null, [], {}, { action: 'yes' }, { content: {} }, { code: -1, message: 'no' }];
    const shapes = [
      [],
      5,
      'x',
      ...odd.map((response) => ({ age: response })),
      { age: { action: 'accept', content: 5 } },
    ];
    for (const responses of shapes) {
      const more = retry(asked, responses as never);
      const answered = host.tool('birthday', { name: 'Ada' }, { ...options, more });
      await assert.rejects(answered, { code: -32602, message: /inputResponses/ });
    }
    const declined = retry(asked, { age: { action: 'decline', content: { age: 7 } } });
    assert.equal(textOf(await host.tool('birthday', { name: 'Ada' }, { ...options, more: declined })), 'decline');
    assert.equal(counted.effects, 0);
  });

  test('row 42 finding 4 takes no answer to what nobody asked', async () => {
    const counted = birthday();
    const host = new Host(counted.registry);
    const more = { inputResponses: { age: accept({ age: 7 }) } as never };
    const asked = await host.tool('birthday', { name: 'Ada' }, { ...options, more });
    assert.equal(asked.resultType, 'input_required');
    assert.equal(counted.effects, 0);
  });

  test('is not asked of a client that did not declare it', async () => {
    const host = new Host(birthday().registry);
    const declared: NonNullable<CallOptions['capabilities']>[] = [{}, { elicitation: { url: {} } }, { sampling: {} }];
    for (const capabilities of declared) {
      const asked = host.tool('birthday', { name: 'Ada' }, { ...options, capabilities });
      const data = { requiredCapabilities: { elicitation: { form: {} } } };
      await assert.rejects(asked, { code: -32021, data });
    }
  });
});

describe('several questions', () => {
  const message = { role: 'user', content: { type: 'text', text: '?' } } as const;
  const questions = {
    age,
    page: elicitUrl('Log in', 'https://example.org/'),
    model: sample({ messages: [message], maxTokens: 5 }),
    roots: listRoots(),
  };
  const said = { role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'm' };
  const responses = {
    age: accept({ age: 7 }),
    page: accept(),
    model: said,
    roots: { roots: [{ uri: 'file:///a' }] },
  };

  function form() {
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('t', {}, (_, exchange) => {
      const missing = Object.entries(questions).filter(([key]) => !exchange.answered(key));
      const count = Number(exchange.state ?? 0) + 1;
      if (missing.length > 0) throw new NeedInput(Object.fromEntries(missing), { state: count });
      const contents = Object.keys(questions).map((key) => [key, exchange.answer(key)?.content]);
      return JSON.stringify([count, Object.fromEntries(contents)]);
    });
    return new Host(registry);
  }
  const contents = { age: { age: 7 }, page: {}, model: said, roots: responses.roots };

  test('row 43 are asked together, answered together', async () => {
    const host = form();
    const asked = await host.tool('t', {}, options);
    assert.deepEqual(Object.keys(asked.inputRequests as object), ['age', 'page', 'model', 'roots']);
    const done = await host.tool('t', {}, { ...options, more: retry(asked, responses) });
    assert.deepEqual(JSON.parse(textOf(done)), [2, contents]);
  });

  test('are answered one by one: what was answered is remembered, what is open is asked again', async () => {
    const host = form();
    let result = await host.tool('t', {}, options);
    for (const [key, response] of Object.entries(responses)) {
      assert.ok(key in (result.inputRequests as object));
      result = await host.tool('t', {}, { ...options, more: retry(result, { [key]: response }) });
    }
    assert.deepEqual(JSON.parse(textOf(result)), [5, contents]);
  });

  test('are asked as far as the client declared them', async () => {
    const host = form();
    const capabilities = { sampling: {} };
    const asked = await host.tool('t', {}, { ...options, capabilities });
    assert.deepEqual(Object.keys(asked.inputRequests as object), ['model']);
    const data = { requiredCapabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } };
    await assert.rejects(host.tool('t', {}, { revision: modern }), { code: -32021, data });
    const more = retry(asked, { model: said });
    await assert.rejects(host.tool('t', {}, { ...options, capabilities, more }), { code: -32021 });
  });

  test('are asked in at most 32 rounds', async () => {
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('t', {}, async (_, exchange) => {
      for (let index = 0; ; index++) await exchange.ask(`q${index}`, elicit('More?'));
    });
    const host = new Host(registry);
    let result = await host.tool('t', {}, options);
    for (let round = 0; round < 31; round++) {
      const [key = ''] = Object.keys(result.inputRequests as object);
      assert.equal(key, `q${round}`);
      result = await host.tool('t', {}, { ...options, more: retry(result, { [key]: accept() }) });
    }
    result = await host.tool('t', {}, { ...options, more: retry(result, { q31: accept() }) });
    assert.match(failureIn(result) ?? '', /still asks after 32 rounds/);
  });
});

describe('state', () => {
  test('comes back as JSON holds it, null and odd names too, and stays until it is replaced', async () => {
    const registry = new Registry({ name: 'test', version: '1' });
    const odd = JSON.parse('{"__proto__":{"x":1},"at":"2026"}');
    registry.tool('t', {}, async (_, exchange) => {
      if (!exchange.answered('one')) throw new NeedInput({ one: elicit('1') }, { state: odd });
      assert.deepEqual(exchange.state, exchange.answered('three') ? null : odd);
      await exchange.ask('two', elicit('2'));
      if (!exchange.answered('three')) throw new NeedInput({ three: elicit('3') }, { state: null });
      return 'done';
    });
    const host = new Host(registry);
    let result = await host.tool('t', {}, options);
    for (const key of ['one', 'two', 'three']) {
      result = await host.tool('t', {}, { ...options, more: retry(result, { [key]: accept() }) });
    }
    assert.equal(textOf(result), 'done');
  });

  test('that is too large is a tool error, and nothing is asked', async () => {
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('t', {}, () => {
      throw new NeedInput({ a: elicit('?') }, { state: 'x'.repeat(2_000_000) });
    });
    assert.match(failureIn(await new Host(registry).tool('t', {}, options)) ?? '', /at most \d+ bytes/);
  });

  test('row 30 is spent by a retry that the client cancels', async () => {
    const counted = birthday();
    const host = new Host(counted.registry);
    const asked = await host.tool('birthday', { name: 'Ada' }, options);
    const more = retry(asked, { age: accept({ age: 7 }) });
    const params = { name: 'birthday', arguments: { name: 'Ada' }, ...more };
    const first = host.call('tools/call', params, options);
    const running = first.run();
    first.cancel();
    await running;
    await assert.rejects(host.tool('birthday', { name: 'Ada' }, { ...options, more }), invalid);
    assert.equal(counted.effects, 1);
  });
});
