import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Bucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { limits } from '../../src/limits.ts';
import { allFaces, Clock, type Face, type FaceError, type Reason } from './faces.ts';

/** One thing that holds whoever wrote and whoever reads. */
interface Case {
  readonly name: string;
  run(writer: Face, reader: Face, world: { clock: Clock; bucket: Bucket }): void;
}

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const hour = 3_600_000;
const never = 'AAAAAAAAAAAAAAAAAAAAAAAA';

function refused(reason: Reason, run: () => unknown): void {
  assert.throws(run, (error: FaceError) => {
    assert.equal(error.reason, reason, `${error.cause}`);
    return true;
  });
}

const odd = [
  '',
  '\0',
  '__proto__',
  'constructor',
  'toString',
  'a/b',
  'a:b',
  ' ',
  'é',
  '日本語',
  '👍🏽',
  '\u2028',
  'x'.repeat(1024),
];
const blobs = [
  new Uint8Array(),
  Uint8Array.from({ length: 256 }, (_, byte) => byte),
  bytes('text with "quotes", é, 日本語, 👍🏽 and 100 %'),
  bytes('\ufeffwith a mark'),
  Uint8Array.of(0xc3),
  Uint8Array.of(0xed, 0xa0, 0x80),
  bytes('x'.repeat(limits.inline)),
  bytes('y'.repeat(limits.inline + 1)),
  new Uint8Array(100_000).fill(0xff),
];

const cases: Case[] = [
  {
    name: 'a value comes back as it was, whatever its key and bytes',
    run(writer, reader) {
      const id = writer.initialize();
      assert.equal(reader.get(id, 'absent'), undefined);
      odd.forEach((key, index) => {
        const value = blobs[index % blobs.length] ?? new Uint8Array();
        writer.set(id, key, value);
        assert.deepEqual(Buffer.from(reader.get(id, key) ?? 'none'), Buffer.from(value), `key ${JSON.stringify(key)}`);
      });
      blobs.forEach((value) => {
        writer.set(id, 'k', value);
        assert.deepEqual(Buffer.from(reader.get(id, 'k') ?? 'none'), Buffer.from(value));
      });
      assert.deepEqual(reader.keys(id).sort(), [...odd, 'k'].sort());
    },
  },
  {
    name: 'a removed key is absent, the others stay',
    run(writer, reader) {
      const id = writer.initialize();
      writer.set(id, 'a', bytes('1'));
      writer.set(id, '__proto__', bytes('2'));
      writer.remove(id, '__proto__');
      writer.remove(id, 'never');
      assert.deepEqual(reader.keys(id), ['a']);
    },
  },
  {
    name: 'a large value is apart, and gone when it is replaced, removed or its session deleted',
    run(writer, reader, { bucket }) {
      const id = writer.initialize();
      const keys = () => bucket.list().keys.length;
      writer.set(id, 'k', bytes('x'.repeat(10_000)));
      assert.equal(keys(), 2);
      writer.set(id, 'k', bytes('z'.repeat(10_000)));
      assert.equal(keys(), 2);
      assert.equal(reader.get(id, 'k')?.length, 10_000);
      writer.remove(id, 'k');
      assert.equal(keys(), 1);
      writer.set(id, 'k', bytes('x'.repeat(10_000)));
      reader.delete(id);
      assert.equal(keys(), 0);
    },
  },
  {
    name: 'what exceeds a limit is refused before anything is written',
    run(writer, reader, { bucket }) {
      const id = writer.initialize();
      writer.set(id, 'k', bytes('kept'));
      const before = bucket.list().keys.length;
      refused('limit', () => writer.set(id, 'x'.repeat(limits.key + 1), bytes('1')));
      refused('limit', () => writer.set(id, 'é'.repeat(limits.key / 2 + 1), bytes('1')));
      refused('limit', () => writer.set(id, 'k', new Uint8Array(limits.value + 1)));
      assert.equal(bucket.list().keys.length, before);
      assert.deepEqual(reader.keys(id), ['k']);
      assert.equal(Buffer.from(reader.get(id, 'k') ?? '').toString(), 'kept');
    },
  },
  {
    name: 'a terminated session is read, not written, keeps its first reason, and can be deleted',
    run(writer, reader) {
      const id = writer.initialize();
      writer.set(id, 'k', bytes('v'));
      assert.equal(reader.isTerminated(id), false);
      writer.terminate(id, 'first');
      writer.terminate(id, 'second');
      reader.terminate(id);
      assert.equal(reader.isTerminated(id), true);
      assert.equal(Buffer.from(reader.get(id, 'k') ?? '').toString(), 'v');
      assert.throws(
        () => reader.set(id, 'k', bytes('w')),
        (error: FaceError) => {
          assert.equal(error.reason, 'terminated');
          const { payload, val } = error.cause as { payload?: { val: string }; val?: string };
          assert.match(payload?.val ?? val ?? '', /first/);
          return true;
        },
      );
      refused('terminated', () => writer.remove(id, 'k'));
      reader.delete(id);
      refused('no-such-session', () => writer.isTerminated(id));
    },
  },
  {
    name: 'never made, malformed and deleted ids name no session',
    run(writer, reader) {
      const id = writer.initialize();
      writer.delete(id);
      refused('no-such-session', () => reader.get(id, 'k'));
      refused('no-such-session', () => reader.open(never));
      refused('no-such-session', () => reader.set(id, 'k', bytes('v')));
      refused('no-such-session', () => reader.delete(id));
    },
  },
  {
    name: 'a session of another owner is one that never existed',
    run(writer, reader) {
      const id = writer.initialize('ann');
      refused('no-such-session', () => reader.open(id));
      refused('no-such-session', () => reader.open(id, 'bob'));
      reader.open(id, 'ann');
      const open = writer.initialize();
      refused('no-such-session', () => reader.open(open, 'ann'));
    },
  },
  {
    name: 'it lives until one millisecond before its silence is over, and is renewed by each use',
    run(writer, reader, { clock }) {
      const id = writer.initialize();
      clock.time += hour - 1;
      reader.open(id);
      clock.time += hour - 1;
      writer.set(id, 'k', bytes('v'));
      clock.time += hour - 1;
      assert.deepEqual(reader.keys(id), ['k']);
      clock.time += hour + 1;
      refused('no-such-session', () => reader.get(id, 'k'));
      refused('no-such-session', () => writer.set(id, 'k', bytes('w')));
      refused('no-such-session', () => writer.terminate(id));
      const other = writer.initialize(undefined, 1000);
      clock.time += 1000;
      refused('no-such-session', () => reader.open(other));
    },
  },
];

let files = 0;

const buckets: Record<string, (folder: string) => Bucket> = {
  memory: () => new MemoryBucket(),
  SQLite: (folder) => new SqliteBucket(join(folder, `${files++}.db`)),
};

const names = (await allFaces(new MemoryBucket(), new Clock())).map(({ name }) => name);

for (const [kind, make] of Object.entries(buckets)) {
  describe(`over ${kind}, what one face stores the others read`, () => {
    let folder: string;
    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'mcp-session-'));
    });
    after(() => rm(folder, { recursive: true }));
    for (const [writing, writer] of names.entries()) {
      for (const [reading, reader] of names.entries()) {
        describe(`${writer} writes, ${reader} reads`, () => {
          for (const { name, run } of cases) {
            test(name, async () => {
              const world = { clock: new Clock(), bucket: make(folder) };
              try {
                const faces = await allFaces(world.bucket, world.clock);
                run(faces[writing] as Face, faces[reading] as Face, world);
              } finally {
                await world.bucket.close();
              }
            });
          }
        });
      }
    }
  });
}

test('10,000 ids are distinct and of visible ASCII', async () => {
  for (const face of await allFaces(new MemoryBucket(), new Clock())) {
    const ids = new Set(Array.from({ length: 10_000 }, () => face.initialize()));
    assert.equal(ids.size, 10_000, face.name);
    for (const id of ids) assert.match(id, /^[\x21-\x7e]{22,}$/);
  }
});
