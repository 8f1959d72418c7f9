import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InstanceError, instantiate } from '../../host/component.ts';
import { loadTransitions, Refusal } from '../../host/transitions.ts';
import { plainBucket } from '../support/plain-bucket.ts';
import { runScript } from '../support/run-script.ts';

/** A component whose next draw of random bytes fails, which the WIT has no error for: it traps. */
async function breakable() {
  const logged: string[] = [];
  const control = { broken: false };
  const component = await instantiate({
    log: (level, event) => logged.push(`${level} ${event}`),
    random(length) {
      if (control.broken) throw new Error('no entropy');
      return crypto.getRandomValues(new Uint8Array(length));
    },
  });
  const trap = () => {
    control.broken = true;
    assert.throws(() => component.sessions.Session.initialize(component.bucket(plainBucket())), InstanceError);
    control.broken = false;
  };
  return { component, logged, trap };
}

test('a trap costs its call, and what is stored is found in the next instance', async () => {
  const { component, logged, trap } = await breakable();
  const bucket = plainBucket();
  const before = component.sessions.Session.initialize(component.bucket(bucket));
  before.set('k', Uint8Array.of(1));
  trap();
  assert.deepEqual(logged, ['error instance replaced']);
  for (let n = 0; n < 3; n++) {
    assert.throws(() => before.get('k'), { name: 'InstanceError', message: /open it again/ });
  }
  const after = component.sessions.Session.open(component.bucket(bucket), idIn(bucket));
  assert.deepEqual(after.get('k'), Uint8Array.of(1));
  assert.deepEqual(logged, ['error instance replaced'], 'once for each instance');
  before[Symbol.dispose]();
  trap();
  assert.equal(logged.length, 2);
});

function idIn(bucket: ReturnType<typeof plainBucket>): string {
  const [key] = bucket.entries.keys();
  return key?.slice(key.lastIndexOf('/') + 1) ?? '';
}

test('a trap in one component leaves the sessions of another alone', async () => {
  const one = await breakable();
  const two = await breakable();
  const session = two.component.sessions.Session.initialize(two.component.bucket(plainBucket()));
  one.trap();
  session.set('k', Uint8Array.of(1));
  assert.deepEqual(session.get('k'), Uint8Array.of(1));
  assert.deepEqual(two.logged, []);
});

test('an argument of the wrong type costs its call, and is told', async () => {
  const { component, logged } = await breakable();
  for (const ttl of [-1n, 2n ** 64n, 5, 1.5, 'long']) {
    const bucket = component.bucket(plainBucket());
    assert.throws(
      () => component.sessions.Session.initializeIn(bucket, { namespace: '' }, ttl as bigint),
      InstanceError,
    );
  }
  assert.equal(logged.length, 5);
  const life = 2n ** 53n - 1n;
  const session = component.sessions.Session.initializeIn(component.bucket(plainBucket()), { namespace: '' }, life);
  assert.equal(session.isTerminated(), false);
});

test('collecting the resources of a failed instance does not end the process', () => {
  const { status, stdout, stderr } = runScript(
    `
    const { instantiate } = await import('./host/component.ts');
    const { plainBucket } = await import('./test/support/plain-bucket.ts');
    const { onFinalizerFailed } = await import('#dist/session/session.js');
    let failed = 0;
    onFinalizerFailed(() => { failed += 1; });
    let broken = false;
    const component = await instantiate({
      random(length) { if (broken) throw new Error('no entropy'); return crypto.getRandomValues(new Uint8Array(length)); },
    });
    let held = Array.from({ length: 100 }, () => component.sessions.Session.initialize(component.bucket(plainBucket())));
    broken = true;
    try { component.sessions.Session.initialize(component.bucket(plainBucket())); } catch {}
    broken = false;
    held = undefined;
    for (let n = 0; n < 20; n++) { globalThis.gc(); await new Promise((resolve) => setTimeout(resolve, 5)); }
    const session = component.sessions.Session.initialize(component.bucket(plainBucket()));
    session.set('k', Uint8Array.of(1));
    console.log(JSON.stringify({ failed, works: session.get('k').length }));
    `,
    ['--expose-gc'],
  );
  assert.equal(status, 0, stderr);
  const { failed, works } = JSON.parse(stdout) as { failed: number; works: number };
  assert.ok(failed >= 90, `${failed} finalizers ran`);
  assert.equal(works, 1);
});

/** The number by which an instance knows a resource. Freed numbers are used again. */
function handleOf(resource: object): number {
  const symbol = Object.getOwnPropertySymbols(resource).find((one) => one.description === 'handle');
  return (resource as Record<symbol, number>)[symbol ?? assert.fail('no handle')] ?? assert.fail('no handle');
}

test('thousands of sessions that were disposed, closed or deleted leave nothing behind', async () => {
  const { component } = await breakable();
  const { Session } = component.sessions;
  const bucket = plainBucket();
  let dropped = 0;
  let highest = 0;
  const resource = () => component.bucket(bucket, () => (dropped += 1));
  for (let n = 0; n < 1500; n++) {
    const disposed = Session.initialize(resource());
    const id = disposed.id();
    highest = Math.max(highest, handleOf(disposed));
    disposed[Symbol.dispose]();
    disposed[Symbol.dispose]();
    const closed = Session.open(resource(), id);
    const back = Session.close(closed);
    assert.equal(Session.delete(Session.open(back, id)), back);
  }
  assert.equal(dropped, 1500, 'a bucket is dropped with its session, and given back by close and delete');
  assert.ok(highest < 8, `handle ${highest}`);
  assert.equal(bucket.entries.size, 0);
});

test('closing or deleting one session leaves every other one alone', async () => {
  const { component } = await breakable();
  const { Session } = component.sessions;
  const make = () => Session.initialize(component.bucket(plainBucket()));
  // The numbers under which the two sides know a session drift apart as sessions come and go.
  for (let n = 0; n < 5; n++) make()[Symbol.dispose]();
  const live = Array.from({ length: 40 }, make);
  while (live.length > 0) {
    const [session] = live.splice(Math.floor(live.length * 0.6), 1);
    if (session === undefined) break;
    if (live.length % 2 === 0) Session.close(session);
    else Session.delete(session);
    for (const other of live) assert.equal(other.isTerminated(), false);
  }
});

test('sessions that are only forgotten are collected', () => {
  const { status, stdout, stderr } = runScript(
    `
    const { instantiate } = await import('./host/component.ts');
    const { plainBucket } = await import('./test/support/plain-bucket.ts');
    const component = await instantiate();
    const bucket = plainBucket();
    let dropped = 0;
    for (let n = 0; n < 3000; n++) {
      component.sessions.Session.initialize(component.bucket(bucket, () => { dropped += 1; }));
      if (n % 100 === 0) { globalThis.gc(); await new Promise((resolve) => setTimeout(resolve, 1)); }
    }
    for (let n = 0; n < 20; n++) { globalThis.gc(); await new Promise((resolve) => setTimeout(resolve, 5)); }
    console.log(dropped);
    `,
    ['--expose-gc'],
  );
  assert.equal(status, 0, stderr);
  assert.ok(Number(stdout) > 2900, `${stdout.trim()} of 3000 buckets dropped`);
});

test('a session that was closed or disposed of is not used again', async () => {
  const { component } = await breakable();
  const session = component.sessions.Session.initialize(component.bucket(plainBucket()));
  session[Symbol.dispose]();
  assert.throws(() => session.id(), InstanceError);
});

for (const build of ['quickjs', 'starlingmonkey'] as const) {
  test(`a refusal of the ${build} build is a Refusal, and costs nothing`, async () => {
    const logged: string[] = [];
    const transitions = await loadTransitions({ build, log: (_, event) => logged.push(event) });
    for (let n = 0; n < 3; n++) {
      assert.throws(
        () => transitions.examine('no record'),
        (error) => error instanceof Refusal && error.tag === 'unreadable' && typeof error.val === 'string',
      );
    }
    assert.equal(transitions.readKey('somebody else'), undefined);
    assert.deepEqual(logged, []);
  });

  test(`a failure inside the ${build} build costs its call`, async () => {
    const logged: string[] = [];
    const transitions = await loadTransitions({ build, log: (_, event) => logged.push(event) });
    assert.throws(() => transitions.examine(7 as unknown as string), InstanceError);
    assert.deepEqual(logged, ['instance replaced']);
    assert.throws(() => transitions.examine(''), Refusal);
  });
}
