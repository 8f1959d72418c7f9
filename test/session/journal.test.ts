import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { AnyBucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { readEventId } from '../../host/event-id.ts';
import { journalLimits } from '../../host/journal-record.ts';
import { KeptStream } from '../../host/kept-stream.ts';
import { resume } from '../../host/resume.ts';
import { type Session, Sessions } from '../../host/session.ts';
import { EventStream } from '../../host/sse.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { journalKey, journalPieceKey } from '../../src/namespace.ts';
import { later } from '../support/buckets.ts';
import { nobody } from '../support/call.ts';
import { fieldOf, keysIn } from '../support/wire.ts';

const transitions = await loadTransitions();
const hour = 3_600_000;

/** The sessions of one process. */
function process(bucket: AnyBucket, now: () => number = () => 1_800_000_000_000): Sessions {
  return new Sessions({ bucket, transitions, log: () => undefined, sessionTtl: hour, stateTtl: hour, now });
}

async function opened(sessions: Sessions, id: string): Promise<Session> {
  const session = await sessions.open('session', nobody, id);
  assert.ok(session);
  return session;
}

/** A reader, and the events that it has taken. */
class Reader {
  readonly connection = new EventStream();
  readonly ended: Promise<boolean>;
  takes = true;
  #text = '';

  constructor() {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.ended = promise;
    this.connection.attach({
      write: (text) => {
        this.#text += text;
        return this.takes;
      },
      end: resolve,
    });
  }

  get events(): { readonly id: string; readonly json: string }[] {
    const events = this.#text.split('\n\n').filter((event) => event !== '');
    return events.map((event) => ({ id: fieldOf(event, 'id') ?? '', json: fieldOf(event, 'data') ?? '' }));
  }
}

function keep(session: Session): { stream: KeptStream; reader: Reader } {
  const reader = new Reader();
  const keeping = { session, primes: true, retry: 1, call: 1 };
  return { stream: new KeptStream(reader.connection, keeping), reader };
}

/** What a client gets that comes back with that id; `undefined` if it is refused. */
async function comeBack(session: Session, id: string) {
  const place = readEventId(id);
  assert.ok(place);
  const reader = new Reader();
  const run = await resume(session.journal, place, reader.connection);
  await run?.();
  return run && reader.events;
}

const message = (name: string, size = 0) => JSON.stringify({ name, filling: 'x'.repeat(size) });

describe('the journal of a session', () => {
  test('T-56 T-58 gives what followed, at every position of every stream, through every process', async () => {
    const step = fc.record({
      stream: fc.nat(3),
      size: fc.constantFrom(0, 100, 3000, 9000, 20_000),
      pause: fc.boolean(),
    });
    const property = fc.asyncProperty(fc.array(step, { maxLength: 40 }), fc.boolean(), async (steps, isLater) => {
      const memory = new MemoryBucket();
      const bucket = isLater ? later(memory) : memory;
      const [one, two] = [process(bucket), process(bucket)];
      const session = await one.create('session', nobody, {});
      const other = await opened(two, session.id);
      const kept = [session, other, session, other].map(keep);
      for (const [at, { stream, size, pause }] of steps.entries()) {
        kept[stream]?.stream.send(message(`${at}`, size));
        if (pause) await new Promise(setImmediate);
      }
      for (const { stream } of kept) stream.end();
      await Promise.all([one.close(), two.close()]);
      const ids = kept.flatMap(({ reader }) => reader.events.map(({ id }) => id));
      assert.equal(new Set(ids).size, steps.length + kept.length);
      const third = await opened(process(bucket), session.id);
      for (const { reader } of kept) {
        for (const [at, { id }] of reader.events.entries()) {
          assert.deepEqual(await comeBack(third, id), reader.events.slice(at + 1));
        }
      }
      await third.delete();
      assert.equal(await keysIn(memory), 0);
    });
    await fc.assert(property, { numRuns: 40 });
  });

  test('keeps the latest events within its limits, the response among them', async () => {
    const bucket = new MemoryBucket();
    const sessions = process(bucket);
    const session = await sessions.create('session', nobody, {});
    const { stream, reader } = keep(session);
    for (let at = 0; at < journalLimits.events + 500; at += 1) {
      stream.send(message(`${at}`));
      if (at % 10 === 0) await new Promise(setImmediate);
    }
    stream.send(message('response'));
    stream.end();
    await sessions.close();
    const sent = reader.events;
    const kept = (await comeBack(session, sent[0]?.id ?? '')) ?? [];
    assert.ok(kept.length <= journalLimits.events && kept.length > journalLimits.events / 2, `${kept.length}`);
    assert.deepEqual(kept, sent.slice(-kept.length));
    await session.delete();
    assert.equal(await keysIn(bucket), 0);
  });

  test('forgets a stream with its last event, and refuses who comes back for it', async () => {
    const bucket = new MemoryBucket();
    const sessions = process(bucket);
    const session = await sessions.create('session', nobody, {});
    const first = keep(session);
    first.stream.send(message('response'));
    first.stream.end();
    const second = keep(session);
    const size = 256 * 1024;
    let stored = 0;
    for (let at = 0; at < 40; at += 1) {
      second.stream.send(message(`${at}`, size));
      await sessions.settled();
      await new Promise(setImmediate);
      const entries = bucket.list().keys.map((key) => bucket.get(key)?.value.length ?? 0);
      stored = Math.max(
        stored,
        entries.reduce((sum, length) => sum + length, 0),
      );
    }
    second.stream.end();
    await sessions.close();
    assert.ok(stored < journalLimits.bytes * 1.2, `${stored}`);
    assert.equal(await comeBack(session, first.reader.events[0]?.id ?? ''), undefined);
    const kept = (await comeBack(session, second.reader.events[0]?.id ?? '')) ?? [];
    assert.deepEqual(kept, second.reader.events.slice(-kept.length));
    assert.ok(kept.length > 10);
  });

  test('knows so many streams and no more, those that ended go first', async () => {
    const sessions = process(new MemoryBucket());
    const session = await sessions.create('session', nobody, {});
    const open = keep(session);
    const ended = Array.from({ length: journalLimits.streams + 20 }, () => keep(session));
    for (const { stream } of ended) {
      stream.send(message('response'));
      stream.end();
    }
    await open.stream.known;
    open.stream.send(message('late'));
    open.stream.end();
    await sessions.close();
    const known = await Promise.all(ended.map(({ reader }) => comeBack(session, reader.events[0]?.id ?? '')));
    assert.equal(known.filter((events) => events !== undefined).length, journalLimits.streams - 1);
    assert.equal((await comeBack(session, open.reader.events[0]?.id ?? ''))?.length, 1);
  });

  test('holds no more in memory than it would keep while the bucket is silent', async () => {
    const memory = new MemoryBucket();
    const quick = later(memory);
    let silent: Promise<void> | undefined;
    const written: number[] = [];
    const bucket = {
      ...quick,
      set: async (key: string, value: Uint8Array) => {
        written.push(value.length);
        await quick.set(key, value);
      },
      swap: async (...args: Parameters<typeof quick.swap>) => {
        await silent;
        return await quick.swap(...args);
      },
    };
    const sessions = process(bucket);
    const session = await sessions.create('session', nobody, {});
    const { promise, resolve } = Promise.withResolvers<void>();
    silent = promise;
    const { stream, reader } = keep(session);
    await new Promise(setImmediate);
    const size = 512 * 1024;
    for (let at = 0; at < 100; at += 1) stream.send(message(`${at}`, size));
    stream.end();
    resolve();
    await sessions.close();
    assert.ok(Math.max(...written) <= journalLimits.bytes * 1.1);
    const kept = (await comeBack(session, reader.events[0]?.id ?? '')) ?? [];
    assert.ok(kept.length > 0);
    assert.deepEqual(kept, reader.events.slice(-kept.length));
  });

  test('reads no further ahead than its reader takes', async () => {
    const memory = new MemoryBucket();
    const read: string[] = [];
    const quick = later(memory);
    const bucket = {
      ...quick,
      get: (key: string) => {
        if (key.split('/').length > 6) read.push(key);
        return quick.get(key);
      },
    };
    const sessions = process(bucket);
    const session = await sessions.create('session', nobody, {});
    const { stream, reader } = keep(session);
    for (let at = 0; at < 20; at += 1) {
      stream.send(message(`${at}`, 100_000));
      while ((await keysIn(memory)) < at + 3) await new Promise(setImmediate);
    }
    stream.end();
    await sessions.close();
    const slow = new Reader();
    slow.takes = false;
    const place = readEventId(reader.events[0]?.id ?? '');
    assert.ok(place);
    const run = (await resume(session.journal, place, slow.connection))?.();
    while (slow.events.length === 0) await new Promise(setImmediate);
    for (let turn = 0; turn < 50; turn += 1) await new Promise(setImmediate);
    assert.deepEqual([read.length, slow.events.length], [1, 1]);
    slow.takes = true;
    slow.connection.pull();
    await run;
    assert.deepEqual([read.length, slow.events], [20, reader.events.slice(1)]);
    assert.equal(await slow.ended, true);
  });

  test('H-46 the latest connection gets what follows, and every other of that stream ends', async () => {
    const bucket = new MemoryBucket();
    const [one, two] = [process(bucket), process(bucket)];
    const session = await one.create('session', nobody, {});
    const { stream, reader } = keep(session);
    stream.send(message('1'));
    await stream.known;
    const place = readEventId(reader.events[0]?.id ?? '');
    assert.ok(place);
    const second = new Reader();
    const third = new Reader();
    const running = (await resume(session.journal, place, second.connection))?.();
    assert.equal(await reader.ended, true);
    const far = await opened(two, session.id);
    const last = (await resume(far.journal, place, third.connection))?.();
    await running;
    assert.equal(await second.ended, true);
    stream.send(message('2'));
    stream.end();
    await last;
    assert.deepEqual(
      third.events.map(({ json }) => json),
      [message('1'), message('2')],
    );
    assert.ok(reader.events.every(({ json }) => json !== message('2')));
    await Promise.all([one.close(), two.close()]);
  });

  test('is not made again for a session that is deleted at the same time', async () => {
    for (let turns = 0; turns < 12; turns += 1) {
      const memory = new MemoryBucket();
      const [one, two] = [process(later(memory)), process(later(memory))];
      const session = await one.create('session', nobody, {});
      const other = await opened(two, session.id);
      const { stream } = keep(session);
      for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate);
      const deleted = other.delete();
      stream.send(message('1', 10_000));
      stream.end();
      await deleted;
      await one.close();
      assert.equal(await keysIn(memory), 0, `after ${turns} turns`);
      await two.close();
    }
  });

  test('is swept when its session is gone, and its lost pieces when they are an hour old', async () => {
    const bucket = new MemoryBucket();
    const made = 1_800_000_000_000;
    let time = made;
    const sessions = process(bucket, () => time);
    const session = await sessions.create('session', nobody, {});
    const { stream } = keep(session);
    stream.send(message('1', 10_000));
    stream.end();
    await sessions.settled();
    while ((await keysIn(bucket)) < 3) await new Promise(setImmediate);
    const [record = ''] = bucket.list().keys.filter((key) => key.startsWith('mcp-session/1/s/'));
    const lost = journalPieceKey(journalKey(record), made, 'lost');
    const young = journalPieceKey(journalKey(record), made + 60_000, 'young');
    for (const key of [lost, young]) bucket.set(key, Buffer.from('[]'));
    const release = session.use();
    time = made + hour;
    await sessions.sweep();
    assert.deepEqual([bucket.exists(lost), bucket.exists(young), await keysIn(bucket)], [false, true, 4]);
    release();
    bucket.delete(record);
    await sessions.sweep();
    assert.equal(await keysIn(bucket), 0);
    await sessions.close();
  });

  test('of a later version is left alone: nothing is added, nothing is read, the session works', async () => {
    const bucket = new MemoryBucket();
    const sessions = process(bucket);
    const session = await sessions.create('session', nobody, {});
    const [record = ''] = bucket.list().keys;
    const later = Buffer.from('{"v":2}');
    bucket.set(journalKey(record), later);
    await assert.rejects(comeBack(session, `${'A'.repeat(16)}.0`), { name: 'BucketError', code: 'corrupt' });
    assert.deepEqual(Buffer.from(bucket.get(journalKey(record))?.value ?? []), later);
    await sessions.sweep();
    assert.ok(bucket.exists(journalKey(record)));
    await session.delete();
    assert.equal(await keysIn(bucket), 0);
    await sessions.close();
  });
});
