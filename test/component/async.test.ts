import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AsyncBucket } from '../../host/bucket/bucket.ts';
import { BucketError } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { type GuestSession, instantiate, instantiateAsync } from '../../host/component.ts';
import { later } from '../support/buckets.ts';
import { runScript } from '../support/run-script.ts';

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (value: Uint8Array | undefined) => (value === undefined ? undefined : Buffer.from(value).toString());

async function opened(options: Parameters<typeof instantiateAsync>[0] = {}) {
  const memory = new MemoryBucket();
  const logged: string[] = [];
  const log = (level: string, event: string) => logged.push(`${level} ${event}`);
  const component = await instantiateAsync({ log, ...options });
  const { Session } = component.sessions;
  const bucket = () => component.bucket(later(memory));
  return { memory, component, Session, bucket, logged };
}

/** What a call is refused with. */
async function refusal(call: Promise<unknown>): Promise<unknown> {
  const thrown = await call.then(
    () => assert.fail('it was not refused'),
    (error: unknown) => error,
  );
  return (thrown as { payload?: unknown }).payload ?? thrown;
}

test('a session over a bucket that answers later does everything that one over memory does', async () => {
  const { Session, bucket, memory, logged } = await opened();
  const session = await Session.initializeIn(bucket(), { namespace: 'n', owner: 'o' }, 60_000n);
  assert.equal(await session.get('k'), undefined);
  await session.set('k', bytes('日本語'));
  const large = new Uint8Array(2 ** 20).map((_, at) => at % 251);
  await session.set('large', large);
  assert.deepEqual(await session.get('large'), large);
  assert.deepEqual(await session.keys(), ['k', 'large']);
  await session.remove('large');
  assert.equal(await session.swap('k', bytes('x'), undefined), false);
  assert.equal(await session.swap('k', bytes('日本語'), bytes('y')), true);
  assert.deepEqual(await refusal(Session.open(bucket(), session.id())), { tag: 'no-such-session' });
  const again = await Session.openIn(bucket(), { namespace: 'n', owner: 'o' }, session.id());
  await again.terminate('over');
  assert.equal(await session.isTerminated(), true);
  assert.deepEqual(await refusal(session.set('k', large)), {
    tag: 'unexpected',
    val: 'the session was terminated: over',
  });
  assert.equal(text(await again.get('k')), 'y');
  const back = await Session.close(again);
  const last = await Session.openIn(back, { namespace: 'n', owner: 'o' }, session.id());
  await Session.delete(last);
  assert.deepEqual(memory.list().keys, []);
  const [given, error] = (await refusal(Session.delete(session))) as [object, unknown];
  assert.deepEqual(error, { tag: 'no-such-session' });
  assert.equal(await (await Session.initialize(given as never)).get('k'), undefined);
  assert.deepEqual(logged, []);
});

test('both components read what the other wrote', async () => {
  const { Session, bucket, memory } = await opened();
  const { sessions, bucket: resource } = await instantiate();
  const one = await Session.initialize(bucket());
  await one.set('k', bytes('later'));
  const other = sessions.Session.open(resource(memory), one.id());
  assert.equal(text(other.get('k')), 'later');
  other.set('k', bytes('at once'));
  assert.equal(text(await one.get('k')), 'at once');
});

test('no write of many at once is lost, in as many instances as there are', async () => {
  const { Session, bucket, logged } = await opened({ instances: 3 });
  const { id } = await Session.initialize(bucket()).then((session) => ({ id: session.id() }));
  const sessions = await Promise.all(Array.from({ length: 8 }, () => Session.open(bucket(), id)));
  const bump = async (session: GuestSession): Promise<void> => {
    for (;;) {
      const was = await session.get('n');
      if (await session.swap('n', was, bytes(String(Number(text(was) ?? 0) + 1)))) return;
    }
  };
  const bumps = sessions.map(async (session, at) => {
    await session.set(`own ${at}`, bytes('here'));
    for (let n = 0; n < 5; n++) await bump(session);
  });
  await Promise.all(bumps);
  const [first] = sessions;
  assert.equal(text(await first?.get('n')), '40');
  assert.equal((await first?.keys())?.length, 9);
  assert.deepEqual(logged, []);
});

test('fault 162: whatever a bucket fails with is a store error, and the session lives on', async () => {
  const { Session, component, logged } = await opened();
  const memory = new MemoryBucket();
  let failure: (() => unknown) | undefined;
  const failing: AsyncBucket = {
    ...later(memory),
    get: async (key) => (failure === undefined ? memory.get(key) : (failure() as never)),
  };
  const session = await Session.initialize(component.bucket(failing));
  const raise = (error: unknown) => () => {
    throw error;
  };
  const store = (val: string) => ({ tag: 'store', val: { tag: 'other', val } });
  const cases: [() => unknown, unknown][] = [
    [raise(new Error('connect ECONNREFUSED')), store('connect ECONNREFUSED')],
    [raise('lost'), store('lost')],
    [raise(Object.create(null)), store('the bucket failed')],
    [raise(new BucketError('denied', 'no')), { tag: 'store', val: { tag: 'access-denied' } }],
    [() => 'text', store('get of this bucket returned something of the wrong shape')],
    [() => ({ value: [1], version: '1' }), store('get of this bucket returned something of the wrong shape')],
  ];
  for (const [fail, expected] of cases) {
    failure = fail;
    assert.deepEqual(await refusal(session.get('k')), expected);
    assert.deepEqual(await refusal(session.set('k', bytes('v'))), expected);
    failure = undefined;
    await session.set('k', bytes('v'));
  }
  assert.deepEqual(logged, []);
});

test('fault 192: the bytes that a bucket is given stay as they were while it works', async () => {
  const { Session, component } = await opened();
  const memory = new MemoryBucket();
  const slow: AsyncBucket = {
    ...later(memory),
    async set(key, value) {
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      memory.set(key, value);
    },
  };
  const session = await Session.initialize(component.bucket(slow));
  const other = await Session.initialize(component.bucket(slow));
  const values = Array.from({ length: 6 }, (_, at) => new Uint8Array(2 ** 20).fill(at + 1));
  await Promise.all(values.map((value, at) => (at % 2 === 0 ? session : other).set(`k${at}`, value)));
  for (const [at, value] of values.entries()) {
    assert.deepEqual(await (at % 2 === 0 ? session : other).get(`k${at}`), value);
  }
});

test('fault 179: an instance that fails costs its sessions, which are opened again in another', async () => {
  let broken = false;
  const random = (length: number) => {
    if (broken) throw new Error('no entropy');
    return crypto.getRandomValues(new Uint8Array(length));
  };
  const { Session, bucket, logged } = await opened({ random, instances: 1 });
  const session = await Session.initialize(bucket());
  await session.set('k', bytes('v'));
  broken = true;
  const waiting = session.get('k');
  const trapped = Session.initialize(bucket());
  assert.equal(text(await waiting), 'v');
  const failed = (val: string) => ({ tag: 'unexpected', val });
  assert.deepEqual(await refusal(trapped), failed('the component failed inside this call'));
  const gone = failed('this belongs to an instance of the component that failed: open it again');
  assert.deepEqual(await refusal(session.get('k')), gone);
  broken = false;
  assert.deepEqual(logged, ['error instance replaced']);
  const [back, error] = (await refusal(Session.delete(session))) as [never, unknown];
  assert.deepEqual(error, gone);
  assert.equal(text(await (await Session.open(back, session.id())).get('k')), 'v');
  assert.deepEqual(logged, ['error instance replaced']);
});

test('fault 173: sessions that nobody holds give their buckets back, also those of an instance that failed', () => {
  const { status, stdout, stderr } = runScript(
    `
    const { instantiateAsync } = await import('./host/component.ts');
    const { MemoryBucket } = await import('./host/bucket/memory.ts');
    let broken = false;
    const component = await instantiateAsync({
      instances: 1,
      random(length) { if (broken) throw new Error('no entropy'); return crypto.getRandomValues(new Uint8Array(length)); },
    });
    const { Session } = component.sessions;
    const bucket = new MemoryBucket();
    let dropped = 0;
    const make = () => Session.initialize(component.bucket(bucket, () => { dropped += 1; }));
    const collect = async (enough) => {
      for (let n = 0; n < 200 && !enough(); n++) { globalThis.gc(); await new Promise((resolve) => setTimeout(resolve, 5)); }
    };
    (await make())[Symbol.dispose]();
    for (let n = 0; n < 100; n++) await make();
    await collect(() => dropped >= 100);
    console.log(dropped >= 100 ? 'dropped' : dropped);
    let held = [];
    for (let n = 0; n < 100; n++) held.push(await make());
    broken = true;
    await make().catch(() => undefined);
    broken = false;
    held = undefined;
    let rounds = 0;
    await collect(() => ++rounds > 20);
    console.log((await make()).id().length > 20 ? 'goes on' : 'broken');
    `,
    ['--expose-gc'],
  );
  assert.equal(stdout, 'dropped\ngoes on\n', stderr);
  assert.equal(status, 0, stderr);
});

test('a number of instances that is none is refused', async () => {
  for (const instances of [0, -1, 1.5, Number.NaN, '4' as never]) {
    await assert.rejects(instantiateAsync({ instances }), {
      name: 'RangeError',
      message: /instances: expected 1 or more/,
    });
  }
});
