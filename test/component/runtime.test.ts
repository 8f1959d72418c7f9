import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bucket, BucketError } from '../../host/bucket/bucket.ts';
import { type Component, InstanceError, instantiate } from '../../host/component.ts';
import { plainBucket, watched } from '../support/plain-bucket.ts';
import { runScript } from '../support/run-script.ts';

type Session = ReturnType<Component['sessions']['Session']['open']>;

const logged: string[] = [];
const component = await instantiate({ log: (level, event) => logged.push(`${level} ${event}`) });
const { sessions } = component;
const small = Uint8Array.of(1, 2, 3);
const large = new Uint8Array(20_000).fill(7);

/** What a call threw: the variant that the WIT declares, or whatever else. */
function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return (error as { payload?: unknown }).payload ?? error;
  }
  return undefined;
}

const open = (bucket: Bucket, id: string) => sessions.Session.open(component.bucket(bucket), id);
const ask = (session: Session, write: (bytes: Uint8Array) => void = () => undefined) =>
  session.elicit(component.outputStream(write), { tag: 'form', val: { message: 'sure?', fields: [] } });

/** Gets ready over a bucket that still works, and returns the call that is to meet the failure. */
type Prepare = (bucket: Bucket, id: string) => () => unknown;
const onSession = (call: (session: Session) => unknown): Prepare => {
  return (bucket, id) => {
    const session = open(bucket, id);
    return () => call(session);
  };
};
const calls: Readonly<Record<string, Prepare>> = {
  initialize: (bucket) => () => sessions.Session.initialize(component.bucket(bucket)),
  open: (bucket, id) => () => open(bucket, id),
  'get of a small value': onSession((session) => session.get('small')),
  'get of a large value': onSession((session) => session.get('large')),
  'set of a small value': onSession((session) => session.set('new', small)),
  'set of a large value': onSession((session) => session.set('new', large)),
  'set over a large value': onSession((session) => session.set('large', small)),
  remove: onSession((session) => session.remove('large')),
  swap: onSession((session) => session.swap('new', undefined, large)),
  keys: onSession((session) => session.keys()),
  elicit: onSession((session) => ask(session)),
  terminate: onSession((session) => session.terminate('over')),
  'is-terminated': onSession((session) => session.isTerminated()),
  delete: onSession((session) => sessions.Session.delete(session)),
};

function prepared(): { bucket: ReturnType<typeof plainBucket>; id: string } {
  const bucket = plainBucket();
  const session = sessions.Session.initialize(component.bucket(bucket));
  session.set('small', small);
  session.set('large', large);
  return { bucket, id: session.id() };
}

/** Lets the call meet the failure at its first use of the bucket, then at its second, …, until it needs no more. */
function breakEach(name: string, prepare: Prepare, fail: (method: string) => never): void {
  for (let use = 1; ; use++) {
    const { bucket, id } = prepared();
    let left = Number.POSITIVE_INFINITY;
    const breaking = watched(bucket, (method) => {
      left -= 1;
      if (left === 0) fail(method);
    });
    const call = prepare(breaking, id);
    left = use;
    const thrown = thrownBy(call);
    const failed = left <= 0;
    left = Number.POSITIVE_INFINITY;
    // What is tidied up after the change was made may fail without the call failing.
    if (thrown !== undefined) {
      const error = (Array.isArray(thrown) ? thrown[1] : thrown) as { tag?: string };
      assert.equal(error.tag, 'store', `use ${use}: ${String(thrown)}`);
    }
    const reopened = thrownBy(() => assert.deepEqual(open(bucket, id).get('small'), small));
    if (name === 'delete')
      assert.ok(reopened === undefined || (reopened as { tag?: string }).tag === 'no-such-session');
    else assert.equal(reopened, undefined);
    if (failed) continue;
    assert.ok(use > 1, 'it uses the bucket');
    return;
  }
}

const throws: Readonly<Record<string, unknown>> = {
  'a plain error': new Error('connect ECONNREFUSED'),
  'a type error': new TypeError('x is not a function'),
  'a text': 'lost',
  nothing: undefined,
  'an object without a prototype': Object.create(null),
  'an error that looks like the glue its own': Object.assign(new Error('no'), { payload: { tag: 'nonsense' } }),
  'a tagged object': { tag: 'nonsense' },
};

for (const [name, prepare] of Object.entries(calls)) {
  test(`${name} answers store, at whichever use the bucket throws whatever`, () => {
    for (const thrown of Object.values(throws)) {
      breakEach(name, prepare, () => {
        throw thrown;
      });
    }
    assert.deepEqual(logged, []);
  });
}

test('the text of a failure arrives, and a refusal of the store as access-denied', () => {
  const { bucket, id } = prepared();
  const failing = (error: Error) => {
    let armed = false;
    const session = open(
      watched(bucket, () => {
        if (armed) throw error;
      }),
      id,
    );
    armed = true;
    return thrownBy(() => session.get('small'));
  };
  assert.deepEqual(failing(new Error('ECONNREFUSED')), { tag: 'store', val: { tag: 'other', val: 'ECONNREFUSED' } });
  assert.deepEqual(failing(new BucketError('denied', 'no')), { tag: 'store', val: { tag: 'access-denied' } });
  for (const code of ['unavailable', 'full', 'read-only', 'corrupt', 'closed', 'failed'] as const) {
    assert.deepEqual(failing(new BucketError(code, `it is ${code}`)), {
      tag: 'store',
      val: { tag: 'other', val: `it is ${code}` },
    });
  }
});

test('a bucket that returns something else than it should is a failed store', () => {
  const entry = (value: unknown, version: unknown) => ({ value, version });
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    get: ['text', 7, {}, entry('text', '1'), entry(small, 1), entry([1], '1'), Promise.resolve(entry(small, '1'))],
    swap: [7, true, null, {}, Promise.resolve('1'), Promise.reject(new Error('later'))],
  };
  for (const [method, results] of Object.entries(wrong)) {
    for (const result of results) {
      const { bucket, id } = prepared();
      const session = open(bucket, id);
      Object.assign(bucket, { [method]: () => result });
      assert.equal((thrownBy(() => session.set('k', small)) as { tag?: string }).tag, 'store', `${method}: ${result}`);
    }
  }
  assert.deepEqual(logged, []);
});

test('a value that is not there is none, whether the bucket says undefined or null', () => {
  const { bucket, id } = prepared();
  assert.equal(open(bucket, id).get('absent'), undefined);
  const empty = { ...plainBucket(), get: () => null as unknown as undefined };
  assert.deepEqual(
    thrownBy(() => open(empty, id)),
    { tag: 'no-such-session' },
  );
});

test('a bucket that calls back into the component is refused, and the call goes on', () => {
  const { bucket, id } = prepared();
  let inner: unknown;
  const other = open(bucket, id);
  const session = open(
    watched(bucket, () => {
      inner ??= thrownBy(() => other.id());
    }),
    id,
  );
  assert.deepEqual(session.get('small'), small);
  assert.ok(inner instanceof InstanceError);
  assert.equal(other.id(), id);
});

test('keys and values of one to four bytes a character come back as they were', () => {
  const { bucket, id } = prepared();
  const session = open(bucket, id);
  for (const text of ['a', 'é', '日本語', '👍🏽', 'a\0b', 'aé日👍', 'é'.repeat(500), '👍'.repeat(250), '']) {
    session.set(text, Buffer.from(text));
    assert.equal(Buffer.from(session.get(text) ?? 'absent').toString(), text);
  }
  session.terminate('日本語 👍🏽'.repeat(10));
  assert.match(JSON.stringify(thrownBy(() => session.set('k', small))), /日本語 👍🏽/u);
});

test('a lone surrogate in a key is the replacement character', () => {
  const { bucket, id } = prepared();
  const session = open(bucket, id);
  session.set('\ud800x', small);
  assert.deepEqual(session.get('\ufffdx'), small);
});

test('values of 64 KiB, 1 MiB and 8 MiB come back, and one byte more is refused', () => {
  const { bucket, id } = prepared();
  const session = open(bucket, id);
  for (const size of [2 ** 16, 2 ** 20, 2 ** 23]) {
    const value = new Uint8Array(size).map((_, index) => index % 251);
    session.set('big', value);
    assert.equal(Buffer.compare(session.get('big') ?? small, value), 0);
  }
  assert.equal((thrownBy(() => session.set('big', new Uint8Array(2 ** 23 + 1))) as { tag?: string }).tag, 'unexpected');
  assert.equal(session.get('big')?.length, 2 ** 23);
  assert.deepEqual(logged, []);
});

test('two fresh instances never make the same id, not even as their first', async () => {
  const ids = new Set<string>();
  for (let n = 0; n < 8; n++) {
    const fresh = await instantiate();
    for (let m = 0; m < 4; m++) ids.add(fresh.sessions.Session.initialize(fresh.bucket(plainBucket())).id());
  }
  const script = `
    const { instantiate } = await import('./host/component.ts');
    const { plainBucket } = await import('./test/support/plain-bucket.ts');
    const component = await instantiate();
    console.log(component.sessions.Session.initialize(component.bucket(plainBucket())).id());
  `;
  for (let n = 0; n < 2; n++) ids.add(runScript(script).stdout.trim());
  assert.equal(ids.size, 34);
});

test('entropy and time are what the host gives', async () => {
  let time = 1_000_000;
  const options = { now: () => time, random: (length: number) => new Uint8Array(length).fill(5) };
  const [one, two] = [await instantiate(options), await instantiate(options)];
  const bucket = plainBucket();
  const session = one.sessions.Session.initializeIn(one.bucket(bucket), { namespace: '' }, 1000n);
  assert.equal(two.sessions.Session.initialize(two.bucket(plainBucket())).id(), session.id());
  time += 999;
  assert.equal(session.get('k'), undefined);
  time += 1;
  assert.deepEqual(
    thrownBy(() => session.get('k')),
    { tag: 'no-such-session' },
  );
});
