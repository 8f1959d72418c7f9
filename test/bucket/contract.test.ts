import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { AnyBucket, AsyncBucket, Bucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { brokenBuckets } from './broken.ts';
import { bucketContract } from './contract.ts';

let folder: string;
let files = 0;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-session-'));
});

after(() => rm(folder, { recursive: true }));

const fresh = () => join(folder, `${files++}.db`);

/** The same bucket, a turn of the event loop later. The arguments are taken at once, as by any client of a server. */
function later(bucket: Bucket): AsyncBucket {
  const soon = <T>(run: () => T) => new Promise<void>((resolve) => setImmediate(resolve)).then(run);
  return {
    kind: bucket.kind,
    get: (key) => soon(() => bucket.get(key)),
    set: (key, value) => {
      const copy = new Uint8Array(value);
      return soon(() => bucket.set(key, copy));
    },
    delete: (key) => soon(() => bucket.delete(key)),
    exists: (key) => soon(() => bucket.exists(key)),
    list: (cursor) => soon(() => bucket.list(cursor)),
    swap: (key, expected, value) => {
      const copy = new Uint8Array(value);
      return soon(() => bucket.swap(key, expected, copy));
    },
    settled: () => bucket.settled(),
    close: () => bucket.close(),
  };
}

const kinds: Record<string, () => AnyBucket> = {
  memory: () => new MemoryBucket(),
  'a bucket that answers later': () => later(new MemoryBucket()),
  'SQLite, durable': () => new SqliteBucket(fresh()),
  'SQLite, normal': () => new SqliteBucket(fresh(), { sync: 'normal' }),
};

for (const [kind, make] of Object.entries(kinds)) {
  describe(kind, () => {
    for (const { name, run } of bucketContract) {
      test(name, async () => {
        const bucket = make();
        try {
          await run(bucket);
        } finally {
          await bucket.close();
        }
      });
    }
  });
}

describe('the contract', () => {
  for (const { name, make, caught } of brokenBuckets) {
    test(`catches a bucket that ${name}`, async () => {
      for (const each of caught) {
        const found = bucketContract.find((one) => one.name === each);
        assert.ok(found !== undefined, each);
        await assert.rejects(async () => await found.run(make()), `not caught by: ${each}`);
      }
    });
  }

  test('row 56 row 88 has no case that catches nothing', () => {
    const catching = new Set(brokenBuckets.flatMap(({ caught }) => caught));
    assert.deepEqual(
      bucketContract.filter(({ name }) => !catching.has(name)).map(({ name }) => name),
      [],
    );
  });
});
