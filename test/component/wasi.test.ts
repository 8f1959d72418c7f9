import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bucket, BucketError } from '../../host/bucket/bucket.ts';
import { BucketResource, type Cas, keyvalueImports } from '../../host/bucket/wasi.ts';
import { maxWrite, OutputStream, Pollable, type StreamFailure, wasiImports } from '../../host/wasi.ts';
import { plainBucket } from '../support/plain-bucket.ts';

interface Keyvalue {
  readonly 'wasi:keyvalue/store': { open(identifier: string): BucketResource };
  readonly 'wasi:keyvalue/atomics': {
    readonly Cas: typeof Cas;
    swap(cas: Cas, value: Uint8Array): void;
    increment(bucket: BucketResource, key: string, delta: bigint): bigint;
  };
  readonly 'wasi:keyvalue/batch': {
    getMany(bucket: BucketResource, keys: string[]): [string, Uint8Array | undefined][];
    setMany(bucket: BucketResource, pairs: [string, Uint8Array][]): void;
    deleteMany(bucket: BucketResource, keys: string[]): void;
  };
}
// The imports go to the glue, which takes whatever is of the right shape; here they are called by hand.
const imports = keyvalueImports({ notes: plainBucket() }) as unknown as Keyvalue;
const { 'wasi:keyvalue/store': store, 'wasi:keyvalue/atomics': atomics, 'wasi:keyvalue/batch': batch } = imports;

const text = (value: string) => new TextEncoder().encode(value);

function thrownBy(run: () => unknown): { tag?: string; val?: unknown } {
  try {
    run();
  } catch (error) {
    return error as { tag?: string };
  }
  return assert.fail('nothing was thrown');
}

const failing = (error: unknown): Bucket => {
  const fail = () => {
    throw error;
  };
  return { ...plainBucket(), get: fail, set: fail, delete: fail, exists: fail, list: fail, swap: fail };
};

test('every method of a bucket answers with the declared error', () => {
  for (const [error, expected] of [
    [new BucketError('denied', 'no entry'), { tag: 'access-denied' }],
    [new BucketError('full', 'no space'), { tag: 'other', val: 'no space' }],
    [new Error('ECONNREFUSED'), { tag: 'other', val: 'ECONNREFUSED' }],
    [new Error('cut \ud83d'), { tag: 'other', val: 'cut \ufffd' }],
    ['text', { tag: 'other', val: 'text' }],
    [Object.create(null), { tag: 'other', val: 'the bucket failed' }],
  ] as const) {
    const bucket = new BucketResource(failing(error));
    for (const run of [
      () => bucket.get('k'),
      () => bucket.set('k', text('v')),
      () => bucket.delete('k'),
      () => bucket.exists('k'),
      () => bucket.listKeys(undefined),
      () => atomics.Cas.new(bucket, 'k'),
      () => atomics.increment(bucket, 'k', 1n),
      () => batch.getMany(bucket, ['k']),
      () => batch.setMany(bucket, [['k', text('v')]]),
      () => batch.deleteMany(bucket, ['k']),
    ]) {
      assert.deepEqual(thrownBy(run), expected);
    }
  }
});

test('a result of the wrong shape is an error, never a value', () => {
  const wrong: Readonly<Record<string, readonly [unknown, (bucket: BucketResource) => unknown]>> = {
    set: [Promise.resolve(), (bucket) => bucket.set('k', text('v'))],
    delete: [Promise.reject(new Error('later')), (bucket) => bucket.delete('k')],
    exists: ['yes', (bucket) => bucket.exists('k')],
    get: [Promise.resolve(undefined), (bucket) => bucket.get('k')],
  };
  for (const [method, [result, run]] of Object.entries(wrong)) {
    const bucket = new BucketResource({ ...plainBucket(), [method]: () => result });
    assert.equal(thrownBy(() => run(bucket)).tag, 'other', method);
  }
  for (const page of [undefined, {}, { keys: 'k' }, { keys: [1] }, { keys: [], cursor: 7 }]) {
    const bucket = new BucketResource({ ...plainBucket(), list: () => page as never });
    assert.equal(thrownBy(() => bucket.listKeys(undefined)).tag, 'other');
  }
});

test('a bucket is opened by name, and no other name', () => {
  store.open('notes').set('k', text('v'));
  assert.deepEqual(store.open('notes').get('k'), text('v'));
  for (const name of ['', 'other', 'toString', '__proto__']) {
    assert.deepEqual(
      thrownBy(() => store.open(name)),
      { tag: 'no-such-store' },
    );
  }
});

test('listing pages by the cursor of the bucket', () => {
  const pages = new Map([
    [undefined, { keys: ['a'], cursor: 'next' }],
    ['next', { keys: ['b'], cursor: undefined }],
  ]);
  const bucket = new BucketResource({ ...plainBucket(), list: (cursor) => pages.get(cursor as 'next') as never });
  assert.deepEqual(bucket.listKeys(undefined), { keys: ['a'], cursor: 'next' });
  assert.deepEqual(bucket.listKeys('next'), { keys: ['b'] });
});

test('a lost swap gives the key as it is now, from which the next attempt wins', () => {
  const bucket = new BucketResource(plainBucket());
  for (const before of [undefined, text('old')]) {
    if (before !== undefined) bucket.set('k', before);
    const cas = atomics.Cas.new(bucket, 'k');
    assert.deepEqual(cas.current(), before);
    bucket.set('k', text('theirs'));
    const lost = thrownBy(() => atomics.swap(cas, text('mine')));
    assert.equal(lost.tag, 'cas-failed');
    assert.deepEqual(bucket.get('k'), text('theirs'));
    const again = lost.val as Cas;
    assert.deepEqual(again.current(), text('theirs'));
    atomics.swap(again, text('mine'));
    assert.deepEqual(bucket.get('k'), text('mine'));
    bucket.delete('k');
  }
});

test('a swap is lost to equal bytes, and to a key that was deleted and written again', () => {
  const bucket = new BucketResource(plainBucket());
  bucket.set('k', text('same'));
  const one = atomics.Cas.new(bucket, 'k');
  bucket.set('k', text('same'));
  const two = atomics.Cas.new(bucket, 'k');
  bucket.delete('k');
  bucket.set('k', text('same'));
  for (const cas of [one, two]) assert.equal(thrownBy(() => atomics.swap(cas, text('mine'))).tag, 'cas-failed');
});

test('a swap that fails is a store error', () => {
  const plain = plainBucket();
  let broken = false;
  const swap: Bucket['swap'] = (...given) => {
    if (broken) throw new Error('down');
    return plain.swap(...given);
  };
  const cas = atomics.Cas.new(new BucketResource({ ...plain, swap }), 'k');
  broken = true;
  const expected = { tag: 'store-error', val: { tag: 'other', val: 'down' } };
  assert.deepEqual(
    thrownBy(() => atomics.swap(cas, text('mine'))),
    expected,
  );
});

test('increment counts in decimal text, from nothing, to the edges of 64 bits and not beyond', () => {
  const bucket = new BucketResource(plainBucket());
  const max = 2n ** 63n - 1n;
  assert.equal(atomics.increment(bucket, 'k', 5n), 5n);
  assert.equal(atomics.increment(bucket, 'k', -7n), -2n);
  assert.deepEqual(bucket.get('k'), text('-2'));
  assert.equal(atomics.increment(bucket, 'max', max), max);
  assert.equal(thrownBy(() => atomics.increment(bucket, 'max', 1n)).tag, 'other');
  assert.deepEqual(bucket.get('max'), text(String(max)));
  assert.equal(atomics.increment(bucket, 'min', -max - 1n), -max - 1n);
  assert.equal(thrownBy(() => atomics.increment(bucket, 'min', -1n)).tag, 'other');
  for (const wrong of ['', '1.5', '0x1', ' 1', '1e3', '9'.repeat(20), '\ud83d']) {
    bucket.set('wrong', text(wrong));
    assert.equal(thrownBy(() => atomics.increment(bucket, 'wrong', 1n)).tag, 'other', wrong);
  }
});

test('batches read, write and delete', () => {
  const bucket = new BucketResource(plainBucket());
  batch.setMany(bucket, [
    ['a', text('1')],
    ['b', text('2')],
  ]);
  assert.deepEqual(batch.getMany(bucket, ['b', 'c', 'a']), [
    ['b', text('2')],
    ['c', undefined],
    ['a', text('1')],
  ]);
  batch.deleteMany(bucket, ['a', 'c']);
  assert.equal(bucket.exists('a'), false);
});

test('an output stream hands over each write whole, until it is closed', () => {
  const written: string[] = [];
  const stream = new OutputStream((bytes) => written.push(new TextDecoder().decode(bytes)));
  assert.equal(stream.checkWrite(), BigInt(maxWrite));
  stream.write(text('one'));
  stream.blockingWriteAndFlush(text('two'));
  stream.flush();
  assert.deepEqual(written, ['one', 'two']);
  stream.close();
  for (const run of [() => stream.write(text('x')), () => stream.flush(), () => stream.checkWrite()]) {
    assert.deepEqual(thrownBy(run), { tag: 'closed' });
  }
  assert.deepEqual(written, ['one', 'two']);
});

test('an output stream that fails says why once, and is closed then', () => {
  const broken = new OutputStream(() => {
    throw new Error('gone away');
  });
  const told = new OutputStream(() => undefined);
  told.fail('gone away');
  for (const stream of [broken, told]) {
    const failed = thrownBy(() => stream.blockingWriteAndFlush(text('x')));
    assert.equal(failed.tag, 'last-operation-failed');
    assert.equal((failed.val as StreamFailure).toDebugString(), 'gone away');
    assert.deepEqual(
      thrownBy(() => stream.write(text('x'))),
      { tag: 'closed' },
    );
  }
});

test('a write beyond the permitted size is refused', () => {
  const stream = new OutputStream(() => assert.fail('written'));
  assert.equal(thrownBy(() => stream.write(new Uint8Array(maxWrite + 1))).tag, 'last-operation-failed');
});

interface Wasi {
  readonly 'wasi:io/poll': { poll(pollables: Pollable[]): Uint32Array };
  readonly 'wasi:clocks/wall-clock': { now(): { seconds: bigint; nanoseconds: number } };
  readonly 'wasi:clocks/monotonic-clock': { subscribeDuration(duration: bigint): Pollable };
  readonly 'wasi:random/random': { getRandomBytes(length: bigint): Uint8Array; getRandomU64(): bigint };
}

test('clocks, waiting and random bytes are what the host gives', () => {
  const slept: number[] = [];
  const wasi = wasiImports({
    now: () => 1_234_567.25,
    sleep: (milliseconds) => slept.push(milliseconds),
    random: (length) => new Uint8Array(length).fill(1),
  }) as unknown as Wasi;
  assert.deepEqual(wasi['wasi:clocks/wall-clock'].now(), { seconds: 1234n, nanoseconds: 567_250_000 });
  const clock = wasi['wasi:clocks/monotonic-clock'];
  const [late, soon] = [clock.subscribeDuration(3_600_000_000_000n), clock.subscribeDuration(60_000_000_000n)];
  assert.equal(soon.ready(), false);
  assert.deepEqual(wasi['wasi:io/poll'].poll([late, soon]), Uint32Array.of(1));
  assert.equal(slept.length, 1);
  assert.ok((slept[0] ?? 0) > 59_000 && (slept[0] ?? 0) <= 60_000);
  assert.deepEqual(wasi['wasi:random/random'].getRandomBytes(3n), Uint8Array.of(1, 1, 1));
  assert.equal(wasi['wasi:random/random'].getRandomU64(), 0x0101010101010101n);
});

test('waiting takes the time it should', () => {
  const started = performance.now();
  const pollable = new Pollable(process.hrtime.bigint() + 5_000_000n);
  pollable.block();
  assert.ok(performance.now() - started >= 5);
  assert.equal(pollable.ready(), true);
});
