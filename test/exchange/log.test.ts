import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import * as z from 'zod';
import type { AnyBucket, Bucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import type { WebRequest } from '../../host/call.ts';
import { createHandler, type Handler } from '../../host/library.ts';
import { fingerprint } from '../../host/log.ts';
import { elicit } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { Audit, type Event } from '../support/audit.ts';
import { later, SwitchedBucket } from '../support/buckets.ts';
import { base, type Body, eventsIn, initialize, meta, modern, resultOf, rpc } from '../support/wire.ts';

const hour = 3_600_000;
const folder = mkdtempSync(join(tmpdir(), 'mcp-session-log-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Whatever must not be in a log has this in it. */
const mark = 'SECRET';
const token = (owner: string) => ({ Authorization: `Bearer ${mark}-token-of-${owner}` });

async function authenticate({ headers }: WebRequest) {
  const owner = /-of-(\w+)$/.exec(headers.get('authorization') ?? '')?.[1] ?? '';
  if (owner === 'broken') throw new TypeError(`cannot verify ${headers.get('authorization')}`);
  return { owner: `${mark}-owner-${owner}`, namespace: `${mark}-namespace` };
}

/** A server whose tools touch everything, with handlers that say secrets. */
class Scenario {
  readonly audit = new Audit();
  readonly clock = { time: 1_800_000_000_000 };
  readonly #handler: Handler;
  #requests = 0;

  constructor(bucket: AnyBucket, clock?: { time: number }) {
    if (clock !== undefined) this.clock = clock;
    this.audit.keepSecret(mark);
    const registry = new Registry({ name: 'test', version: '1' });
    const open = () => `${mark}-dependency`;
    const close = (value: string) => {
      throw new Error(`cannot close ${value.length}`);
    };
    const fragile = registry.provide('fragile', { open, close });
    registry.tool('keep', { input: z.object({ value: z.string() }) }, async ({ value }, { session, sessions }) => {
      const kept = session ?? (await sessions.open());
      await Promise.all([kept.set(`${mark}-key`, value), kept.update((values) => ({ ...values, more: value }))]);
      return kept.id;
    });
    registry.tool('ask', { input: z.object({ timeout: z.number() }) }, async ({ timeout }, exchange) => {
      return (await exchange.ask('sure', elicit(`${mark}?`), { timeout })).action;
    });
    registry.tool('end', {}, async (_, { session }) => {
      await session?.terminate(`${mark}-reason`);
      return 'ended';
    });
    registry.tool('fail', {}, async (_, exchange) => {
      await exchange.resolve(fragile);
      throw new Error(`${mark} of the handler`);
    });
    const options = { authenticate, log: this.audit.log, now: () => this.clock.time, sessionTtl: hour };
    this.#handler = createHandler(registry, { ...options, bucket: this.audit.watching(bucket) });
  }

  async send(body: object | string, headers: Record<string, string> = {}, method = 'POST'): Promise<Response> {
    const url = `http://localhost/mcp?${mark}=query`;
    const init = method === 'POST' ? { body: JSON.stringify(body) } : {};
    return await this.#handler(new Request(url, { method, headers: { ...base, ...headers }, ...init }));
  }

  async begin(owner: string): Promise<Record<string, string>> {
    const { headers } = await this.send(initialize('2025-11-25', { elicitation: {} }), token(owner));
    const id = headers.get('mcp-session-id') ?? '';
    assert.notEqual(id, '');
    return { ...token(owner), 'Mcp-Session-Id': id };
  }

  async tool(name: string, args: object, headers: Record<string, string>): Promise<Response> {
    this.#requests++;
    return await this.send(rpc('tools/call', { name, arguments: args } as never, this.#requests), headers);
  }

  health(): Promise<Response> {
    return this.#handler(new Request(`http://localhost/health?${mark}`));
  }

  close(): Promise<void> {
    return this.#handler.close();
  }
}

/** The id of the question on a stream, read as far as it. */
async function question(response: Response): Promise<{ id: string; rest: ReadableStreamDefaultReader<string> }> {
  assert.ok(response.body);
  const rest = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ''; ; ) {
    const { value, done } = await rest.read();
    assert.equal(done, false, text);
    text += value;
    const [asked] = eventsIn(text);
    if (asked !== undefined) return { id: String(asked['id']), rest };
  }
}

async function through(t: TestContext, make: () => Bucket): Promise<readonly Event[]> {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const bucket = later(make());
  const one = new Scenario(bucket);
  const two = new Scenario(bucket, one.clock);
  const alice = await one.begin('alice');
  const value = `${mark}-value`.repeat(1000);
  // Both read before either writes: one loses the race.
  for (let round = 0; round < 5; round++) {
    const writers = [one, two].map((scenario) => scenario.tool('keep', { value }, alice));
    for (const answered of await Promise.all(writers)) assert.equal(answered.status, 200);
  }
  const asked = await question(await one.tool('ask', { timeout: 60_000 }, alice));
  const result = { action: 'accept', content: { more: mark } };
  assert.equal((await two.send({ jsonrpc: '2.0', id: asked.id, result }, alice)).status, 202);
  while (!(await asked.rest.read()).done);
  const unanswered = await question(await one.tool('ask', { timeout: 1000 }, alice));
  one.clock.time += 1000;
  while (!(await unanswered.rest.read()).done);
  await one.tool('fail', {}, alice);
  // Whoever is refused.
  for (const headers of [
    { ...alice, ...token('mallory') },
    { ...alice, 'Mcp-Session-Id': 'Z'.repeat(32) },
  ]) {
    assert.equal((await two.send(rpc('ping'), headers)).status, 404);
  }
  assert.equal((await two.send(rpc('ping'), { ...alice, 'Mcp-Session-Id': `${mark} odd` })).status, 404);
  assert.equal((await two.send(rpc('ping'), token('broken'))).status, 500);
  await state(two);
  // Renewed by a timer, ended by a tool and by the client, and swept at last.
  one.clock.time += hour / 4;
  await one.send(rpc('ping'), alice);
  t.mock.timers.tick(1000);
  await one.tool('end', {}, alice);
  const gone = await two.begin('carol');
  assert.equal((await two.send('', gone, 'DELETE')).status, 204);
  await two.begin('dave');
  one.clock.time += 3 * hour;
  t.mock.timers.tick(30_000);
  await one.close();
  await two.close();
  await bucket.close();
  return [...check(one.audit), ...check(two.audit)];
}

/** A state that is asked for, brought by somebody else, and brought back. */
async function state(scenario: Scenario): Promise<void> {
  const headers = modern('tools/call', 'ask');
  const params = { name: 'ask', arguments: { timeout: 1000 }, _meta: meta({ elicitation: {} }) };
  const asked = await scenario.send(rpc('tools/call', params), { ...headers, ...token('alice') });
  const { requestState = null } = resultOf((await asked.json()) as Body);
  const more = { ...params, requestState, inputResponses: { sure: { action: 'accept', content: { x: mark } } } };
  for (const owner of ['mallory', 'alice', 'alice']) {
    assert.equal((await scenario.send(rpc('tools/call', more), { ...headers, ...token(owner) })).status, 200);
  }
}

function check(audit: Audit): readonly Event[] {
  audit.check();
  return audit.events;
}

/** What takes a store or a component that fails. */
async function failing(t: TestContext): Promise<readonly Event[]> {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const bucket = new SwitchedBucket();
  const scenario = new Scenario(bucket);
  const session = await scenario.begin('alice');
  await scenario.send(rpc('ping'), session);
  bucket.down = true;
  assert.equal((await scenario.health()).status, 503);
  assert.equal((await scenario.send(rpc('ping'), session)).status, 503);
  t.mock.timers.tick(30_000);
  await new Promise(setImmediate);
  bucket.down = false;
  await scenario.close();
  const transitions = await loadTransitions({ log: scenario.audit.log });
  assert.throws(() => transitions.examine(7 as never));
  return check(scenario.audit);
}

const buckets: Readonly<Record<string, () => Bucket>> = {
  memory: () => new MemoryBucket(),
  sqlite: () => new SqliteBucket(join(folder, 'log.db'), { sync: 'normal' }),
};

/** The events of a scenario in which neither the store nor the component fails. */
const everyday = [
  'session created',
  'session rejected',
  'session renewed',
  'session terminated',
  'session deleted',
  'session swept',
  'request state rejected',
  'elicitation asked',
  'elicitation answered',
  'elicitation expired',
  'conflict retried',
  'request failed',
  'dependency not closed',
];

describe('the log', () => {
  for (const [kind, make] of Object.entries(buckets)) {
    test(`row 82 row 83 over ${kind} tells every event with its fields, and no id, owner, credential or value`, async (t) => {
      const events = await through(t, make);
      const seen = new Set(events.map(({ event }) => event));
      assert.deepEqual([...seen].sort(), [...everyday].sort());
      assert.ok(events.every(({ fields }) => fields?.store === undefined || fields.store === kind));
      const reasons = events.flatMap(({ fields }) => fields?.reason ?? []);
      assert.deepEqual([...new Set(reasons)].sort(), ['missing-or-expired', 'owner-mismatch']);
    });
  }

  test('row 82 tells what failed: the store, and the component', async (t) => {
    const events = new Set((await failing(t)).map(({ event }) => event));
    for (const event of ['health check failed', 'renewing failed', 'instance replaced']) assert.ok(events.has(event));
  });

  test('row 82 names a session by a print of the bytes that the client sent, and of the key of its namespace', async () => {
    const scenario = new Scenario(new MemoryBucket());
    const headers = await scenario.begin('alice');
    const id = headers['Mcp-Session-Id'] ?? '';
    await scenario.send(rpc('ping'), { ...headers, ...token('mallory') });
    const key = `mcp-session/1/s/${mark}-namespace/${id}`;
    for (const { fields } of scenario.audit.events) {
      assert.deepEqual([fields?.session, fields?.key], [fingerprint(id), fingerprint(key)]);
    }
    await scenario.send(rpc('ping'), { ...headers, 'Mcp-Session-Id': 'sp\xe4t' });
    const { fields } = scenario.audit.events.at(-1) ?? {};
    assert.equal(fields?.session, fingerprint(Uint8Array.of(0x73, 0x70, 0xe4, 0x74)));
    await scenario.close();
  });

  test('is found wanting when it shows what it must not, or is not as it should be', () => {
    const fields = { store: 'memory', ttl: 1, session: 'a'.repeat(16), key: 'b'.repeat(16) };
    const whole: Event = { level: 'info', event: 'session created', fields };
    const wrong: Record<string, Event> = {
      'session created': { ...whole, level: 'debug' },
      'has no "owner"': { ...whole, fields: { ...fields, owner: 'x' } },
      '"session" is': { ...whole, fields: { ...fields, session: 'the id' } },
      '"key" is': { ...whole, fields: { ...fields, key: undefined } },
      'not in the catalogue': { ...whole, event: 'invented' },
      'the log shows': { level: 'error', event: 'request failed', fields: { method: 'x', error: mark } },
    };
    for (const [words, event] of [['', whole] as const, ...Object.entries(wrong)]) {
      const audit = new Audit();
      audit.keepSecret(mark);
      audit.log(event.level, event.event, event.fields);
      if (words === '') audit.check();
      else
        assert.throws(
          () => audit.check(),
          (error) => error instanceof Error && error.message.includes(words),
        );
    }
  });
});
