import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { AsyncBucket, Bucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import type { LogFields } from '../../host/log.ts';
import { type Session, SessionError, Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { later, scheduled } from '../support/buckets.ts';

const transitions = await loadTransitions();
const hour = 3_600_000;
const nobody = { namespace: '', owner: undefined };

/** One process: its clock, its log, its sessions over a bucket that others may share. */
function host(bucket: Bucket | AsyncBucket, clock = { time: 1_800_000_000_000 }) {
  const events: { event: string; fields: LogFields }[] = [];
  const log = (_: string, event: string, fields: LogFields = {}) => void events.push({ event, fields });
  const sessions = new Sessions({
    bucket,
    transitions,
    log,
    sessionTtl: hour,
    stateTtl: 600_000,
    now: () => clock.time,
  });
  return { sessions, clock, events };
}

const bump = (session: Session) => session.update((values) => ({ ...values, n: Number(values.n ?? 0) + 1 }));
const gone = (error: unknown) => error instanceof SessionError && error.code === 'gone';

describe('sessions of a host', () => {
  test('row 7 row 22 what is set is read by another process, a copy each time', async () => {
    const bucket = new MemoryBucket();
    const session = await host(bucket).sessions.create('session', nobody, { revision: '2025-11-25' });
    await session.set('list', [1]);
    const other = await host(bucket).sessions.open('session', nobody, session.id);
    const list = other?.get('list') as number[];
    list.push(2);
    assert.deepEqual(other?.get('list'), [1]);
    assert.equal(other?.attribute('revision'), '2025-11-25');
    assert.equal(other?.get('absent', 7), 7);
  });

  test('row 23 large values and odd keys survive update', async () => {
    const { sessions } = host(new MemoryBucket());
    const session = await sessions.create('session', nobody, {});
    const large = 'x'.repeat(20_000);
    await session.set('large', large);
    await session.update((values) => ({ ...values, n: 1, ['\0']: null }));
    const again = await sessions.open('session', nobody, session.id);
    assert.equal(again?.get('large'), large);
    assert.deepEqual(again?.keys().sort(), ['\0', 'large', 'n']);
    await session.update(({ n = 0 }) => ({ n }));
    assert.deepEqual((await sessions.open('session', nobody, session.id))?.keys(), ['n']);
  });

  for (const [name, make] of [
    ['at once', (bucket: MemoryBucket) => bucket],
    ['later', later],
  ] as const) {
    test(`row 9 row 12 finding 16 four processes over one bucket that answers ${name} count exactly, and every call succeeds`, async () => {
      const bucket = new MemoryBucket();
      const hosts = Array.from({ length: 4 }, () => host(make(bucket)).sessions);
      const made = await (hosts[0] as Sessions).create('session', nobody, {});
      await Promise.all(
        hosts.flatMap((sessions) =>
          Array.from({ length: 50 }, async () => {
            const session = await sessions.open('session', nobody, made.id);
            await bump(session as Session);
          }),
        ),
      );
      assert.equal((await hosts[0]?.open('session', nobody, made.id))?.get('n'), 200);
    });
  }

  test('update refuses what is no plain object, and the values stay', async () => {
    const { sessions } = host(new MemoryBucket());
    const session = await sessions.create('session', nobody, {});
    await session.set('keep', 1);
    for (const junk of [Promise.resolve({ n: 1 }), new Map(), new Date(), [1], null]) {
      await assert.rejects(
        session.update(() => junk as never),
        { code: 'invalid' },
      );
    }
    assert.equal((await sessions.open('session', nobody, session.id))?.get('keep'), 1);
  });

  test('it lives to the last millisecond of its silence, every request renews it, and a call keeps it alive', async () => {
    const { sessions, clock } = host(new MemoryBucket());
    const { id } = await sessions.create('session', nobody, {});
    for (let times = 0; times < 3; times++) {
      clock.time += hour - 1;
      assert.ok(await sessions.open('session', nobody, id));
    }
    const session = (await sessions.open('session', nobody, id)) as Session;
    const done = session.use();
    clock.time += 5 * hour;
    await session.set('k', 'written in a long call');
    done();
    clock.time += hour - 1;
    assert.equal((await sessions.open('session', nobody, id))?.get('k'), 'written in a long call');
    clock.time += hour + 1;
    assert.equal(await sessions.open('session', nobody, id), undefined);
    await assert.rejects(session.set('k', 1), gone);
  });

  test('a renewal that waited to be written is seen by another process, and survives closing', async () => {
    const bucket = new MemoryBucket();
    const clock = { time: 1_800_000_000_000 };
    const one = host(bucket, clock);
    const { id } = await one.sessions.create('session', nobody, {});
    clock.time += hour / 4;
    await one.sessions.open('session', nobody, id);
    await one.sessions.close();
    clock.time += hour - 1;
    assert.ok(await host(bucket, clock).sessions.open('session', nobody, id));
  });

  test('a bucket that hangs is not asked to renew again and again', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    const shared = new MemoryBucket();
    const hanging = Promise.withResolvers<void>();
    let asked = 0;
    const bucket: AsyncBucket = {
      ...later(shared),
      get: async (key) => {
        asked++;
        if (asked > 1) await hanging.promise;
        return shared.get(key);
      },
    };
    const { sessions } = host(bucket);
    const { id } = await sessions.create('session', nobody, {});
    const session = await sessions.open('session', nobody, id);
    const done = session?.use();
    for (let seconds = 0; seconds < 25; seconds++) {
      t.mock.timers.tick(1000);
      await new Promise(setImmediate);
    }
    assert.equal(asked, 2);
    hanging.resolve();
    for (let turns = 0; turns < 100; turns++) await new Promise(setImmediate);
    assert.ok(asked < 8, `asked ${asked} times`);
    done?.();
    await sessions.close();
  });

  test('row 59 the sweep removes what expired and what is orphaned, and nothing else', async () => {
    const bucket = new MemoryBucket();
    const { sessions, clock } = host(bucket);
    const dead = await sessions.create('session', nobody, {});
    await dead.set('large', 'x'.repeat(10_000));
    await sessions.renew();
    const [apart = ''] = bucket.list().keys.filter((key) => key.includes('/v/'));
    bucket.set(apart.replace(/[^-]+$/, 'orphan'), new Uint8Array(1));
    bucket.set('somebody else', new Uint8Array(1));
    clock.time += 2 * hour;
    const live = await sessions.create('session', nobody, {});
    const other = host(bucket, clock);
    await other.sessions.sweep();
    await other.sessions.sweep();
    assert.equal(bucket.list().keys.length, 2);
    assert.ok(await other.sessions.open('session', nobody, live.id));
  });

  test('row 6 row 74 finding 5 finding 7 kinds, namespaces and owners do not reach each other, and the log tells why without naming anybody', async () => {
    const { sessions, events } = host(new MemoryBucket());
    const ann = { namespace: 'acme', owner: 'ann' };
    const { id } = await sessions.create('session', ann, {});
    assert.equal(await sessions.open('handle', ann, id), undefined);
    assert.equal(await sessions.open('request-state', ann, id), undefined);
    assert.equal(await sessions.open('session', nobody, id), undefined);
    assert.equal(await sessions.open('session', { ...ann, owner: 'bob' }, id), undefined);
    assert.equal(await sessions.open('session', { ...ann, owner: undefined }, id), undefined);
    assert.equal(await sessions.open('session', nobody, `acme/${id}`), undefined);
    assert.ok(await sessions.open('session', ann, id));
    const reasons = events.flatMap(({ fields }) => (fields.reason === undefined ? [] : [fields.reason]));
    const missing = 'missing-or-expired';
    assert.deepEqual(reasons, [missing, missing, missing, 'owner-mismatch', 'owner-mismatch', missing]);
    const said = JSON.stringify(events);
    for (const secret of [id, 'acme', 'ann', 'bob']) assert.ok(!said.includes(secret));
  });

  test('finding 7 no text in the place of an id reaches a session of another namespace', async () => {
    const { sessions } = host(new MemoryBucket());
    const namespaces = ['', 'acme', 'acme/evil', 's', '%2F', '..'];
    const made = await Promise.all(
      namespaces.map((namespace) => sessions.create('session', { namespace, owner: undefined }, {})),
    );
    const names = fc.constantFrom(...namespaces, 'mcp-session/1/s', 'h', 'q');
    const between = fc.constantFrom('', '/', '//', ':', '%2F', '\\', '/../', '\0', '\u2215');
    const path = fc.array(fc.tuple(names, between), { maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(fc.nat(5), fc.nat(5), path, between, async (from, to, parts, end) => {
        const id = `${parts.flat().join('')}${made[to]?.id}${end}`;
        const found = await sessions.open('session', { namespace: namespaces[from] ?? '', owner: undefined }, id);
        if (from === to && id === made[to]?.id) assert.equal(found?.id, id);
        else assert.equal(found, undefined);
      }),
      { numRuns: 500 },
    );
  });

  test('a request state is redeemed once by its own call, whoever is quickest', async () => {
    const bucket = new MemoryBucket();
    const hosts = Array.from({ length: 3 }, () => host(later(bucket)).sessions);
    const { id } = await (hosts[0] as Sessions).create('request-state', nobody, {}, { binding: 'right' });
    const redeem = async (sessions: Sessions, binding: string) => {
      const state = await sessions.open('request-state', nobody, id);
      try {
        await state?.redeem(binding);
        return 'won';
      } catch (error) {
        assert.ok(error instanceof SessionError);
        return error.code;
      }
    };
    const results = await Promise.all(
      hosts.flatMap((sessions) => [redeem(sessions, 'right'), redeem(sessions, 'wrong')]),
    );
    assert.deepEqual(results.sort(), ['other-call', 'other-call', 'other-call', 'redeemed', 'redeemed', 'won']);
  });

  test('an answer is taken once, whoever is quickest, and not before it is there', async () => {
    const bucket = new MemoryBucket();
    const hosts = Array.from({ length: 3 }, () => host(later(bucket)));
    const [first] = hosts;
    const made = await (first as (typeof hosts)[number]).sessions.create('session', nobody, {});
    const id = 'a-question-of-16-characters';
    const params = { message: '?', requestedSchema: { type: 'object', properties: {} } };
    await made.ask(id, 'elicitation/create', params, 1_800_000_060_000, 'a note');
    const take = async ({ sessions }: (typeof hosts)[number]) => {
      const session = await sessions.open('session', nobody, made.id);
      return session?.take(id).then(
        () => 'taken',
        (error) => error.code,
      );
    };
    assert.equal(await take(hosts[1] as (typeof hosts)[number]), 'no-such-question');
    assert.equal((await made.question(id))?.note, 'a note');
    await made.answer(id, { result: { action: 'decline' } });
    const results = await Promise.all(hosts.map(take));
    assert.deepEqual(results.sort(), ['no-such-question', 'no-such-question', 'taken']);
    assert.equal(await made.question(id), undefined);
  });

  test('row 58 set racing terminate, delete and expiry: no acknowledged write is lost, no session revived', async () => {
    const step = fc.record({
      who: fc.nat(1),
      what: fc.constantFrom('set', 'set', 'set', 'terminate', 'delete', 'expire'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), fc.scheduler(), async (steps, scheduler) => {
        const bucket = new MemoryBucket();
        const clock = { time: 1_800_000_000_000 };
        const hosts = [0, 1].map(() => host(scheduled(bucket, scheduler), clock).sessions);
        const made = await scheduler.waitFor((hosts[0] as Sessions).create('session', nobody, {}));
        const acknowledged: string[] = [];
        const done = { terminate: false, delete: false };
        const run = async ({ who, what }: { who: number; what: string }, index: number) => {
          const ended = { ...done };
          const session = await hosts[who]?.open('session', nobody, made.id);
          if (session === undefined) return;
          assert.ok(!ended.delete && !ended.terminate, 'a session that ended was opened');
          try {
            if (what === 'expire') clock.time += hour / 3;
            if (what === 'terminate') await session.terminate('over').then(() => (done.terminate = true));
            if (what === 'delete') await session.delete().then(() => (done.delete = true));
            if (what === 'set') {
              const after = { ...done };
              await session.set(String(index), index);
              assert.ok(!after.terminate && !after.delete, 'a session that ended took a write');
              acknowledged.push(String(index));
            }
          } catch (error) {
            if (!(error instanceof SessionError)) throw error;
          }
        };
        await scheduler.waitFor(Promise.all(steps.map(run)));
        const key = transitions.recordKey('session', '', made.id);
        const entry = bucket.get(key);
        if (done.delete) assert.equal(entry, undefined);
        if (entry === undefined) return;
        const view = transitions.examine(Buffer.from(entry.value).toString());
        assert.equal(view.terminated, done.terminate);
        const kept = Object.keys(JSON.parse(view.values));
        for (const written of acknowledged) assert.ok(kept.includes(written), 'an acknowledged write was lost');
      }),
      { numRuns: 150 },
    );
  });
});
