import assert from 'node:assert/strict';
import { type AnyBucket, BucketError, type BucketErrorCode, type Page } from '../../host/bucket/bucket.ts';

/**
 * One thing that every bucket does. `run` gets a fresh, empty bucket and throws if it does not. Most cases take any bucket;
 * what they leave in it, and whether they close it, is their own affair.
 */
export interface ContractCase {
  readonly name: string;
  run(bucket: AnyBucket): Promise<void>;
}

/** Keys that a careless bucket confuses, cuts or refuses. */
export const oddKeys: readonly string[] = [
  '',
  '\0',
  'a\0b',
  'a',
  'A',
  'a/b',
  'a:b',
  'a\\b',
  'a%2Fb',
  'a*',
  '../a',
  ' ',
  'a ',
  'é',
  'e\u0301',
  'ß',
  '日本語',
  '👍🏽',
  '\ufeff',
  '\u2028',
  '__proto__',
  'user',
  'users',
  '\0\0',
  'a\0',
  'a//b',
  'constructor',
  '\u007f',
  '\u0080',
  '\u07ff',
  '\u0800',
  '\ufffd',
  '\uffff',
  '\u{10000}',
  '\u{10ffff}',
  '\u{1f511}'.repeat(256),
  'x'.repeat(1023),
  'x'.repeat(1024),
  `${'x'.repeat(1023)}y`,
];

const bytes = (...values: number[]) => Uint8Array.of(...values);

async function valueOf(bucket: AnyBucket, key: string): Promise<number[] | undefined> {
  const entry = await bucket.get(key);
  return entry && [...entry.value];
}

async function versionOf(bucket: AnyBucket, key: string): Promise<string | undefined> {
  return (await bucket.get(key))?.version;
}

async function keysOf(bucket: AnyBucket, between?: (page: number) => Promise<void>): Promise<string[]> {
  const keys: string[] = [];
  let cursor: string | undefined;
  for (let page = 0; ; page++) {
    assert.ok(page < 1000, 'the listing does not end');
    const listed = await bucket.list(cursor);
    keys.push(...listed.keys);
    if (listed.cursor === undefined) return keys;
    cursor = listed.cursor;
    await between?.(page);
  }
}

async function refuses(code: BucketErrorCode, run: () => unknown): Promise<void> {
  await assert.rejects(
    async () => await run(),
    (error) => error instanceof BucketError && error.code === code,
    `expected a BucketError with code ${code}`,
  );
}

/** What a bucket must do, as data: run each case on a bucket of its own, with any test runner. */
export const bucketContract: readonly ContractCase[] = [
  {
    name: 'has nothing under a key that was never written',
    async run(bucket) {
      assert.equal(await bucket.get('k'), undefined);
      assert.equal(await bucket.exists('k'), false);
      assert.deepEqual(await keysOf(bucket), []);
    },
  },
  {
    name: 'holds what was written last',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      await bucket.set('k', bytes(2, 3));
      assert.deepEqual(await valueOf(bucket, 'k'), [2, 3]);
      assert.equal(await bucket.exists('k'), true);
    },
  },
  {
    name: 'tells an empty value from none',
    async run(bucket) {
      await bucket.set('k', bytes());
      assert.deepEqual(await valueOf(bucket, 'k'), []);
      assert.equal(await bucket.exists('k'), true);
      assert.deepEqual(await keysOf(bucket), ['k']);
    },
  },
  {
    name: 'keeps its own copy of the bytes it was given',
    async run(bucket) {
      const given = bytes(1);
      const written = bucket.set('k', given);
      given[0] = 9;
      await written;
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
      // A Buffer is a Uint8Array whose `slice` does not copy.
      const buffer = Buffer.from([3]);
      const writing = bucket.set('buffer', buffer);
      buffer[0] = 9;
      await writing;
      assert.deepEqual(await valueOf(bucket, 'buffer'), [3]);
      const swapped = bytes(2);
      const swapping = bucket.swap('other', undefined, swapped);
      swapped[0] = 9;
      await swapping;
      assert.deepEqual(await valueOf(bucket, 'other'), [2]);
    },
  },
  {
    name: 'hands out bytes that are the caller’s own',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      const entry = await bucket.get('k');
      assert.ok(entry !== undefined);
      entry.value[0] = 9;
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'keeps every byte, whether text or not',
    async run(bucket) {
      const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
      for (const value of [all, bytes(0xc3), bytes(0xed, 0xa0, 0x80), bytes(0xef, 0xbb, 0xbf), bytes(0)]) {
        await bucket.set('k', value);
        assert.deepEqual(await valueOf(bucket, 'k'), [...value]);
      }
    },
  },
  {
    name: 'keeps a value of 4 MiB',
    async run(bucket) {
      const value = new Uint8Array(4 * 1024 * 1024).map((_, at) => at % 251);
      await bucket.set('k', value);
      const read = await bucket.get('k');
      assert.equal(Buffer.compare(read?.value ?? bytes(), value), 0);
    },
  },
  {
    name: 'takes any well-formed text for a key, and no two for one',
    async run(bucket) {
      for (const [index, key] of oddKeys.entries()) await bucket.set(key, bytes(index));
      for (const [index, key] of oddKeys.entries()) {
        assert.deepEqual(await valueOf(bucket, key), [index], `key ${JSON.stringify(key.slice(0, 20))}`);
      }
    },
  },
  {
    name: 'lists keys exactly as they were written',
    async run(bucket) {
      for (const key of oddKeys) await bucket.set(key, bytes(1));
      assert.deepEqual([...new Set(await keysOf(bucket))].sort(), [...oddKeys].sort());
    },
  },
  {
    name: 'refuses a key that is no text, and goes on',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      for (const key of ['\ud800', 'a\udc00b']) {
        await refuses('invalid', () => bucket.set(key, bytes(1)));
        await refuses('invalid', () => bucket.get(key));
        await refuses('invalid', () => bucket.delete(key));
        await refuses('invalid', () => bucket.exists(key));
        await refuses('invalid', () => bucket.swap(key, undefined, bytes(1)));
      }
      assert.deepEqual(await keysOf(bucket), ['k']);
    },
  },
  {
    name: 'deletes a key and no other, and does not mind if there is none',
    async run(bucket) {
      await bucket.set('user', bytes(1));
      await bucket.set('users', bytes(2));
      await bucket.delete('user');
      await bucket.delete('user');
      await bucket.delete('never');
      assert.equal(await bucket.get('user'), undefined);
      assert.equal(await bucket.exists('user'), false);
      assert.deepEqual(await keysOf(bucket), ['users']);
      await bucket.set('user', bytes(3));
      assert.deepEqual(await valueOf(bucket, 'user'), [3]);
    },
  },
  {
    name: 'lists every key of a large bucket, while others come and go',
    async run(bucket) {
      const lasting = Array.from({ length: 2500 }, (_, index) => `lasting ${index}`);
      const leaving = Array.from({ length: 500 }, (_, index) => `gone ${index}`);
      // Those that leave sort and were written before the rest: their going must not shift it out of the next page.
      for (const key of [...leaving, ...lasting]) await bucket.set(key, bytes(1));
      const listed = await keysOf(bucket, async (page) => {
        for (let index = page * 100; index < page * 100 + 100; index++) {
          await bucket.delete(`gone ${index}`);
          await bucket.set(`new ${index}`, bytes(1));
        }
      });
      const found = new Set(listed);
      assert.deepEqual(
        lasting.filter((key) => !found.has(key)),
        [],
      );
    },
  },
  {
    name: 'lists an empty bucket in one page',
    async run(bucket) {
      assert.deepEqual(await bucket.list(), { keys: [], cursor: undefined });
    },
  },
  {
    name: 'refuses a cursor it never gave, or lists only what it holds',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      for (const cursor of ['', '\0', 'no cursor', '-1', '999999999999', '{}', '%', '🔑']) {
        let page: Page;
        try {
          page = await bucket.list(cursor);
        } catch (error) {
          assert.ok(error instanceof BucketError && error.code === 'invalid', String(error));
          continue;
        }
        assert.deepEqual([...new Set(['k', ...page.keys])], ['k']);
      }
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'does not swap at a version it never gave',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      for (const version of ['', '-1', '1.5', 'none', '9'.repeat(40), '\0']) {
        assert.equal(await bucket.swap('k', version, bytes(2)), undefined);
        assert.equal(await bucket.swap('absent', version, bytes(2)), undefined);
      }
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'stores the bytes of a view, not of the memory under it',
    async run(bucket) {
      await bucket.set('k', bytes(0, 1, 2, 3).subarray(1, 3));
      assert.deepEqual(await valueOf(bucket, 'k'), [1, 2]);
    },
  },
  {
    name: 'may be closed twice at once',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      await Promise.all([bucket.close(), bucket.close()]);
    },
  },
  {
    name: 'writes what is absent only if it is absent',
    async run(bucket) {
      const version = await bucket.swap('k', undefined, bytes(1));
      assert.equal(typeof version, 'string');
      assert.equal(await versionOf(bucket, 'k'), version);
      assert.equal(await bucket.swap('k', undefined, bytes(2)), undefined);
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'swaps at the version that was read and at no other',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      const first = await versionOf(bucket, 'k');
      const second = await bucket.swap('k', first, bytes(2));
      assert.equal(typeof second, 'string');
      assert.notEqual(second, first);
      assert.equal(await bucket.swap('k', first, bytes(3)), undefined);
      assert.deepEqual(await valueOf(bucket, 'k'), [2]);
      assert.equal(typeof (await bucket.swap('k', second, bytes(4))), 'string');
    },
  },
  {
    name: 'takes equal bytes written again for another write',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      const first = await versionOf(bucket, 'k');
      await bucket.set('k', bytes(2));
      await bucket.set('k', bytes(1));
      assert.equal(await bucket.swap('k', first, bytes(3)), undefined);
      const last = await versionOf(bucket, 'k');
      await bucket.set('k', bytes(1));
      assert.equal(await bucket.swap('k', last, bytes(3)), undefined);
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'does not swap what was deleted, nor what was made anew',
    async run(bucket) {
      const first = await bucket.swap('k', undefined, bytes(1));
      await bucket.delete('k');
      assert.equal(await bucket.swap('k', first, bytes(2)), undefined);
      assert.equal(await bucket.get('k'), undefined);
      await bucket.set('k', bytes(1));
      assert.equal(await bucket.swap('k', first, bytes(2)), undefined);
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'lets one of many swaps from one version win',
    async run(bucket) {
      await bucket.set('k', bytes(0));
      const version = await versionOf(bucket, 'k');
      const won = await Promise.all(Array.from({ length: 20 }, async (_, n) => bucket.swap('k', version, bytes(n))));
      assert.equal(won.filter((one) => one !== undefined).length, 1);
    },
  },
  {
    name: 'counts exactly when many swap and try again',
    async run(bucket) {
      await bucket.set('k', bytes(0));
      const bump = async () => {
        for (;;) {
          const entry = await bucket.get('k');
          const next = bytes((entry?.value[0] ?? 0) + 1);
          if ((await bucket.swap('k', entry?.version, next)) !== undefined) return;
        }
      };
      await Promise.all(Array.from({ length: 20 }, bump));
      assert.deepEqual(await valueOf(bucket, 'k'), [20]);
    },
  },
  {
    name: 'settles what was written',
    async run(bucket) {
      await bucket.settled();
      await bucket.set('k', bytes(1));
      await Promise.all([bucket.settled(), bucket.settled()]);
      assert.deepEqual(await valueOf(bucket, 'k'), [1]);
    },
  },
  {
    name: 'says that it was closed, and may be closed again',
    async run(bucket) {
      await bucket.set('k', bytes(1));
      await bucket.close();
      await bucket.close();
      await refuses('closed', () => bucket.get('k'));
      await refuses('closed', () => bucket.set('k', bytes(1)));
      await refuses('closed', () => bucket.delete('k'));
      await refuses('closed', () => bucket.exists('k'));
      await refuses('closed', () => bucket.list());
      await refuses('closed', () => bucket.swap('k', undefined, bytes(1)));
      await refuses('closed', () => bucket.settled());
    },
  },
];
