import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { type ElicitRequest, instantiate } from '../../host/component.ts';
import { loadTransitions, Refusal } from '../../host/transitions.ts';
import { Clock } from './faces.ts';

const transitions = await loadTransitions();

const form: ElicitRequest = {
  tag: 'form',
  val: {
    message: 'Who comes? \u2028',
    fields: [
      { name: 'name', title: 'Name', required: true, kind: { tag: 'text', val: { minLength: 2, maxLength: 3 } } },
      { name: 'mail', required: false, kind: { tag: 'text', val: { format: 'email' } } },
      { name: 'people', required: true, kind: { tag: 'integer', val: { minimum: 1n, maximum: 40n } } },
      { name: 'share', required: false, kind: { tag: 'number', val: { maximum: 1 } } },
      { name: 'sure', required: false, kind: { tag: 'boolean', val: { default: true } } },
      {
        name: 'floor',
        required: false,
        kind: { tag: 'single-select', val: { choices: [{ value: 'g', title: 'Ground' }, { value: '1' }] } },
      },
      {
        name: 'meals',
        required: false,
        kind: { tag: 'multi-select', val: { choices: [{ value: 'a' }, { value: 'b' }], maxItems: 1 } },
      },
    ],
  },
};

/** A session in one process that asks, and another process that only has the bucket. */
async function asking() {
  const clock = new Clock();
  const bucket = new MemoryBucket();
  const sleep = (milliseconds: number) => {
    clock.time += milliseconds;
  };
  const component = await instantiate({ now: clock.now, sleep });
  const { Session } = component.sessions;
  const session = Session.initialize(component.bucket(bucket) as never);
  const key = transitions.recordKey('session', '', session.id());
  const writes: string[] = [];
  const stream = component.outputStream((bytes) => void writes.push(Buffer.from(bytes).toString()));
  const ask = (request: ElicitRequest) => {
    const future = session.elicit(stream as never, request);
    const event = /^data: (.*)\n\n$/.exec(writes.at(-1) ?? '');
    return { future, sent: JSON.parse(event?.[1] ?? 'null') };
  };
  const answer = (id: string, result: unknown, failed = false) => {
    const entry = bucket.get(key);
    assert.ok(entry !== undefined);
    const change = { tag: 'answer', val: { id, content: JSON.stringify(result), failed } } as const;
    const content = Buffer.from(entry.value).toString();
    const outcome = transitions.apply(key, content, clock.now(), 0, undefined, [change], randomUUID());
    assert.ok(bucket.swap(key, entry.version, Buffer.from(outcome.content)));
  };
  return { clock, bucket, component, session, writes, ask, answer, Session };
}

const refusedAs = (tag: string) => (error: unknown) => error instanceof Refusal && error.tag === tag;

describe('a question', () => {
  test('is one event with one request in one write, and is in the bucket before', async () => {
    const { ask, writes } = await asking();
    const { sent } = ask(form);
    assert.equal(writes.length, 1);
    assert.ok(!/[\u2028\u2029\u0085]/.test(writes[0] ?? ''));
    assert.match(sent.id, /^[\x21-\x7e]{22,}$/);
    assert.deepEqual(sent, {
      jsonrpc: '2.0',
      id: sent.id,
      method: 'elicitation/create',
      params: {
        message: 'Who comes? \u2028',
        requestedSchema: {
          type: 'object',
          properties: {
            name: { type: 'string', title: 'Name', minLength: 2, maxLength: 3 },
            mail: { type: 'string', format: 'email' },
            people: { type: 'integer', minimum: 1, maximum: 40 },
            share: { type: 'number', maximum: 1 },
            sure: { type: 'boolean', default: true },
            floor: {
              type: 'string',
              oneOf: [
                { const: 'g', title: 'Ground' },
                { const: '1', title: '1' },
              ],
            },
            meals: { type: 'array', items: { type: 'string', enum: ['a', 'b'] }, maxItems: 1 },
          },
          required: ['name', 'people'],
        },
      },
    });
  });

  test('yields the answer that another process stored, typed, again and again', async () => {
    const { ask, answer } = await asking();
    const { future, sent } = ask(form);
    const content = { name: '👍é', people: 6, share: 0.5, sure: false, floor: '1', meals: ['b'], more: 'ignored' };
    answer(sent.id, { action: 'accept', content });
    const expected = {
      tag: 'form',
      val: {
        action: 'accept',
        content: [
          ['name', { tag: 'text', val: '👍é' }],
          ['people', { tag: 'integer', val: 6n }],
          ['share', { tag: 'number', val: 0.5 }],
          ['sure', { tag: 'boolean', val: false }],
          ['floor', { tag: 'text', val: '1' }],
          ['meals', { tag: 'choices', val: ['b'] }],
        ],
      },
    };
    assert.deepEqual(future.elicitResult(), expected);
    assert.deepEqual(future.elicitResult(), expected);
    assert.equal(future.subscribe().ready(), true);
  });

  test('is not answered by what does not fit, and stays open', async () => {
    const { ask, answer } = await asking();
    const { future, sent } = ask(form);
    const good = { name: 'abc', people: 1 };
    const bad: unknown[] = [
      {},
      { action: 'agree' },
      { action: 'accept' },
      { action: 'accept', content: { people: 1 } },
      { action: 'accept', content: { ...good, name: 'a' } },
      { action: 'accept', content: { ...good, name: 'abcd' } },
      { action: 'accept', content: { ...good, mail: 'nobody' } },
      { action: 'accept', content: { ...good, people: 1.5 } },
      { action: 'accept', content: { ...good, people: 41 } },
      { action: 'accept', content: { ...good, people: '6' } },
      { action: 'accept', content: { ...good, share: 1.1 } },
      { action: 'accept', content: { ...good, sure: 'yes' } },
      { action: 'accept', content: { ...good, floor: '2' } },
      { action: 'accept', content: { ...good, meals: ['a', 'b'] } },
      { action: 'accept', content: { ...good, meals: ['c'] } },
    ];
    for (const result of bad) {
      assert.throws(() => answer(sent.id, result), refusedAs('misfit'), JSON.stringify(result));
    }
    assert.throws(
      () => answer('another-question-id-0', { action: 'accept', content: good }),
      refusedAs('no-such-question'),
    );
    answer(sent.id, { action: 'accept', content: good });
    assert.equal(future.elicitResult().tag, 'form');
    assert.throws(() => answer(sent.id, { action: 'decline' }), refusedAs('no-such-question'));
  });

  test('declined, cancelled and failed are three things, and none is an accept', async () => {
    const { ask, answer } = await asking();
    for (const action of ['decline', 'cancel'] as const) {
      for (const content of [undefined, null, { name: 1 }]) {
        const { future, sent } = ask(form);
        answer(sent.id, { action, content });
        assert.deepEqual(future.elicitResult(), { tag: 'form', val: { action, content: [] } });
      }
    }
    const { future, sent } = ask(form);
    answer(sent.id, { code: -32603, message: 'no window' }, true);
    assert.deepEqual(future.elicitResult(), { tag: 'failed', val: { code: -32603, message: 'no window' } });
  });

  test('of a URL, of a model and of the folders has a result of its own', async () => {
    const { ask, answer } = await asking();
    const page = ask({ tag: 'url', val: { message: 'Sign in', url: 'https://example.org/in' } });
    assert.deepEqual(page.sent.params, { mode: 'url', message: 'Sign in', url: 'https://example.org/in' });
    answer(page.sent.id, { action: 'accept' });
    assert.deepEqual(page.future.elicitResult(), { tag: 'url', val: 'accept' });
    const model = ask({
      tag: 'sampling',
      val: {
        messages: [{ speaker: 'user', content: { tag: 'text', val: 'Hello?' } }],
        maxTokens: 10,
        stopSequences: [],
      },
    });
    assert.equal(model.sent.method, 'sampling/createMessage');
    answer(model.sent.id, {
      role: 'assistant',
      model: 'm',
      stopReason: 'endTurn',
      content: { type: 'image', data: 'AAH/', mimeType: 'image/png' },
    });
    assert.deepEqual(model.future.elicitResult(), {
      tag: 'sampling',
      val: {
        message: {
          speaker: 'assistant',
          content: { tag: 'image', val: { bytes: Uint8Array.of(0, 1, 255), mediaType: 'image/png' } },
        },
        model: 'm',
        stopReason: 'endTurn',
      },
    });
    const roots = ask({ tag: 'roots' });
    answer(roots.sent.id, { roots: [{ uri: 'file:///home/me', name: 'me' }, { uri: 'file:///tmp' }] });
    assert.deepEqual(roots.future.elicitResult(), {
      tag: 'roots',
      val: [
        { uri: 'file:///home/me', name: 'me' },
        { uri: 'file:///tmp', name: undefined },
      ],
    });
  });

  test('that ended without an answer says why', async () => {
    const { ask, session, Session, component, bucket, clock } = await asking();
    const expired = ask(form);
    clock.time += 10 * 60 * 1000 + 1;
    assert.deepEqual(expired.future.elicitResult(), { tag: 'none', val: { tag: 'expired' } });
    const ended = ask(form);
    session.terminate('over');
    assert.deepEqual(ended.future.elicitResult(), { tag: 'none', val: { tag: 'session-ended' } });
    const other = Session.initialize(component.bucket(bucket) as never);
    const stream = component.outputStream(() => undefined);
    const open = other.elicit(stream as never, { tag: 'roots' });
    Session.close(other);
    assert.deepEqual(open.elicitResult(), { tag: 'none', val: { tag: 'session-closed' } });
  });

  test('that cannot be sent, or is malformed, is not left open', async () => {
    const { session, component, bucket } = await asking();
    const before = () =>
      JSON.parse(Buffer.from(bucket.get(bucket.list().keys[0] ?? '')?.value ?? '').toString()).questions;
    const broken = component.outputStream(() => {
      throw new Error('the client went away');
    });
    const io = (error: unknown) => (error as { payload?: { tag: string } }).payload?.tag === 'io';
    assert.throws(() => session.elicit(broken as never, { tag: 'roots' }), io);
    const stream = component.outputStream(() => undefined);
    const unexpected = (error: unknown) => (error as { payload?: { tag: string } }).payload?.tag === 'unexpected';
    const yes = { name: 'x', required: true, kind: { tag: 'boolean', val: {} } } as const;
    const malformed: ElicitRequest[] = [
      { tag: 'form', val: { message: 'm'.repeat(70_000), fields: [] } },
      { tag: 'form', val: { message: 'two of one name', fields: [yes, yes] } },
      {
        tag: 'form',
        val: { message: 'none', fields: [{ ...yes, kind: { tag: 'single-select', val: { choices: [] } } }] },
      },
    ];
    for (const request of malformed) assert.throws(() => session.elicit(stream as never, request), unexpected);
    assert.deepEqual(before(), {});
  });
});
