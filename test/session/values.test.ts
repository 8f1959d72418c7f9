import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import type { AnyBucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { type Json, type Session, SessionError, Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { nobody } from '../support/call.ts';

const transitions = await loadTransitions();
const hour = 3_600_000;
const folder = mkdtempSync(join(tmpdir(), 'mcp-session-values-'));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

const buckets: Readonly<Record<string, () => AnyBucket>> = {
  memory: () => new MemoryBucket(),
  sqlite: () => new SqliteBucket(join(folder, `${++files}.db`), { sync: 'normal' }),
};

/** Sessions over a bucket that counts what is asked of it. */
function counted(bucket: AnyBucket) {
  const counts = { get: 0, swap: 0, other: 0 };
  const clock = { time: 1_800_000_000_000 };
  const watched = {
    kind: bucket.kind,
    get: (key: string) => count('get', () => bucket.get(key)),
    set: (key: string, value: Uint8Array) => count('other', () => bucket.set(key, value)),
    delete: (key: string) => count('other', () => bucket.delete(key)),
    exists: (key: string) => count('other', () => bucket.exists(key)),
    list: (cursor?: string) => count('other', () => bucket.list(cursor)),
    swap: (key: string, expected: string | undefined, value: Uint8Array) =>
      count('swap', () => bucket.swap(key, expected, value)),
    settled: () => bucket.settled(),
    close: () => bucket.close(),
  } as AnyBucket;
  function count<T>(what: keyof typeof counts, run: () => T): T {
    counts[what]++;
    return run();
  }
  const log = () => undefined;
  const now = () => clock.time;
  const sessions = new Sessions({ bucket: watched, transitions, log, sessionTtl: hour, stateTtl: 600_000, now });
  const asked = () => {
    const { get, swap, other } = counts;
    Object.assign(counts, { get: 0, swap: 0, other: 0 });
    return { get, swap, other };
  };
  return { sessions, clock, asked };
}

for (const [kind, make] of Object.entries(buckets)) {
  describe(`the values of a session in ${kind}`, () => {
    async function opened() {
      const bucket = make();
      const one = counted(bucket);
      const session = await one.sessions.create('session', nobody, {});
      const again = async () => (await one.sessions.open('session', nobody, session.id)) as Session;
      return { ...one, bucket, session, again };
    }

    test('row 7 are read from the copy that came with the request, until a write of its own', async () => {
      const { session, again, asked } = await opened();
      const mine = await again();
      await session.set('theirs', 1);
      asked();
      assert.deepEqual([mine.get('theirs'), mine.get('theirs', 0), mine.keys()], [undefined, 0, []]);
      assert.deepEqual(asked(), { get: 0, swap: 0, other: 0 });
      await mine.update((values) => ({ ...values, mine: 2 }));
      assert.deepEqual(mine.keys().sort(), ['mine', 'theirs']);
    });

    test('row 8 are set, removed and replaced by one swap each', async () => {
      const { session, again, asked } = await opened();
      asked();
      await session.set('a', 1);
      await session.set('b', [2]);
      await session.remove('a');
      await session.update(() => ({ c: 3 }));
      assert.deepEqual(asked(), { get: 4, swap: 4, other: 0 });
      assert.deepEqual((await again()).keys(), ['c']);
    });

    test('row 22 finding 17 are copies: changing one that was read or given changes nothing', async () => {
      const { session, again } = await opened();
      const given = { list: [1] };
      await session.set('v', given);
      given.list.push(2);
      const read = session.get('v') as { list: number[] };
      read.list.push(3);
      await session.update((values) => {
        (values.v as { list: number[] }).list.push(4);
        return { ...values, w: 1 };
      });
      assert.deepEqual((await again()).get('v'), { list: [1, 4] });
      for (const odd of [undefined, () => 1, Symbol('x')]) {
        await assert.rejects(session.set('odd', odd as unknown as Json), { code: 'invalid' });
      }
    });

    test('row 14 cost a request one read, and no write as long as its renewal can wait', async () => {
      const { again, clock, asked, sessions } = await opened();
      asked();
      for (let requests = 0; requests < 100; requests++) {
        clock.time += 1000;
        await again();
      }
      assert.deepEqual(asked(), { get: 100, swap: 0, other: 0 });
      await sessions.renew();
      assert.equal(asked().swap, 1);
    });

    test('row 11 finding 16 finding 18 whose session expired or was deleted say so, without its id; contention is never that', async () => {
      const { session, again, clock, bucket, sessions } = await opened();
      const other = counted(bucket).sessions;
      const there = (await other.open('session', nobody, session.id)) as Session;
      const add = (one: Session) => one.update((values) => ({ ...values, n: Number(values.n ?? 0) + 1 }));
      await Promise.all(Array.from({ length: 60 }, (_, index) => add(index % 2 === 0 ? session : there)));
      assert.equal((await again()).get('n'), 60);
      clock.time += 2 * hour;
      for (const write of [() => session.set('k', 1), () => session.remove('k'), () => add(session)]) {
        await assert.rejects(write(), (error) => {
          assert.ok(error instanceof SessionError);
          assert.ok(!error.message.includes(session.id));
          return error.code === 'gone';
        });
      }
      await Promise.all([sessions.close(), other.close()]);
    });

    test('row 3 row 20 are deleted with a handle, and kept by one that is terminated, with the first reason', async () => {
      const { sessions } = await opened();
      const handle = await sessions.create('handle', nobody, {});
      const use = () => sessions.open('handle', nobody, handle.id);
      await handle.set('k', 1);
      assert.equal((await use())?.get('k'), 1);
      await handle.delete();
      await handle.delete();
      assert.equal(await use(), undefined);
      const session = await sessions.create('handle', nobody, {});
      await session.set('k', 1);
      await session.terminate('first');
      await session.terminate('second');
      assert.equal(session.get('k'), 1);
      await assert.rejects(session.set('k', 2), { code: 'terminated', message: /first/ });
    });
  });
}
