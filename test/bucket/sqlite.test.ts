import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createInterface } from 'node:readline';
import { after, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { BucketError, type BucketErrorCode } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { openBucket } from '../../host/bucket/open.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';

const folder = mkdtempSync(join(tmpdir(), 'mcp-session-'));
after(() => rmSync(folder, { recursive: true }));

let files = 0;
const fresh = () => join(folder, `${files++}.db`);
const child = fileURLToPath(new URL('child.ts', import.meta.url));

function start(task: string, path: string, count = 0): ChildProcess {
  return spawn(process.execPath, [child, task, path, String(count)], { stdio: ['ignore', 'pipe', 'inherit'] });
}

async function succeeds(process: ChildProcess): Promise<void> {
  const [code] = await once(process, 'exit');
  assert.equal(code, 0);
}

const throwsCode = (code: BucketErrorCode, run: () => unknown) =>
  assert.throws(run, (error) => error instanceof BucketError && error.code === code);

describe('row 90 several processes on one file', () => {
  test('count exactly', async () => {
    const path = fresh();
    await Promise.all(Array.from({ length: 4 }, () => succeeds(start('increment', path, 2500))));
    const bucket = new SqliteBucket(path);
    assert.equal(Buffer.from(bucket.get('count')?.value ?? []).toString(), '10000');
    await bucket.close();
  });

  test('create it at once', async () => {
    const path = fresh();
    await Promise.all(Array.from({ length: 8 }, () => succeeds(start('create', path))));
    const bucket = new SqliteBucket(path);
    assert.equal(bucket.list().keys.length, 8);
    await bucket.close();
  });

  test('keep every settled write through kill -9', async () => {
    for (let round = 0; round < 5; round++) {
      const path = fresh();
      const writer = start('write', path);
      const exited = once(writer, 'exit');
      assert.ok(writer.stdout);
      let settled = -1;
      for await (const line of createInterface({ input: writer.stdout })) {
        settled = Number(line);
        if (settled === 20 + round * 7) writer.kill('SIGKILL');
      }
      const [, signal] = await exited;
      assert.equal(signal, 'SIGKILL');
      assert.ok(settled >= 20 + round * 7);
      const bucket = new SqliteBucket(path);
      for (let number = 0; number <= settled; number++) {
        assert.equal(Buffer.from(bucket.get(`key ${number}`)?.value ?? []).toString(), String(number));
      }
      await bucket.close();
    }
  });

  test('do not wait for a lock longer than they were told', async () => {
    const path = fresh();
    const bucket = new SqliteBucket(path, { busy: 10 });
    const other = new DatabaseSync(path);
    other.exec('BEGIN IMMEDIATE');
    throwsCode('unavailable', () => bucket.set('k', Uint8Array.of(1)));
    throwsCode('unavailable', () => bucket.swap('k', undefined, Uint8Array.of(1)));
    throwsCode('unavailable', () => bucket.delete('k'));
    throwsCode('unavailable', () => new SqliteBucket(path, { busy: 10 }));
    assert.equal(bucket.get('k'), undefined);
    other.exec('ROLLBACK');
    other.close();
    bucket.set('k', Uint8Array.of(1));
    await bucket.close();
  });
});

describe('a file', () => {
  function refusedUntouched(path: string): void {
    const before = readFileSync(path);
    throwsCode('corrupt', () => new SqliteBucket(path));
    assert.deepEqual(readFileSync(path), before);
    throwsCode('corrupt', () => new SqliteBucket(path));
  }

  test('of random bytes is refused and left as it is', () => {
    for (const length of [10, 100, 4096, 65_536]) {
      const path = fresh();
      writeFileSync(path, randomBytes(length));
      refusedUntouched(path);
    }
  });

  test('of another application is refused and left as it is', () => {
    const path = fresh();
    const other = new DatabaseSync(path);
    other.exec("CREATE TABLE entries (key, version, value); INSERT INTO entries VALUES ('k', 1, 'theirs')");
    other.close();
    refusedUntouched(path);
  });

  test('of a newer format is refused and left as it is', async () => {
    const path = fresh();
    await new SqliteBucket(path).close();
    const newer = new DatabaseSync(path);
    newer.exec('PRAGMA user_version = 2');
    newer.close();
    refusedUntouched(path);
  });

  test('and those beside it are for their owner alone', async () => {
    const beside = join(folder, 'owner');
    mkdirSync(beside);
    const bucket = new SqliteBucket(join(beside, 'a.db'));
    bucket.set('k', Uint8Array.of(1));
    const names = readdirSync(beside);
    assert.deepEqual(names.sort(), ['a.db', 'a.db-shm', 'a.db-wal']);
    for (const name of names) assert.equal(statSync(join(beside, name)).mode & 0o777, 0o600, name);
    await bucket.close();
  });

  test('on a full disk says so, and goes on when there is space', async () => {
    const mount = join(folder, 'small');
    mkdirSync(mount);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', mount]);
    try {
      const filler = join(mount, 'filler');
      writeFileSync(filler, new Uint8Array(1024 * 1024));
      const bucket = new SqliteBucket(join(mount, 'a.db'));
      bucket.set('kept', Uint8Array.of(1));
      const large = new Uint8Array(100_000);
      throwsCode('full', () => {
        for (let number = 0; number < 100; number++) bucket.set(`large ${number}`, large);
      });
      assert.deepEqual([...(bucket.get('kept')?.value ?? [])], [1]);
      rmSync(filler);
      bucket.set('after', large);
      await bucket.settled();
      assert.equal(bucket.get('after')?.value.length, large.length);
      await bucket.close();
    } finally {
      execFileSync('umount', [mount]);
    }
  });
});

describe('settled', () => {
  /** A disk whose flushes end when the test says so. */
  function slowDisk() {
    const ends: ((error?: Error) => void)[] = [];
    const flush = () =>
      new Promise<void>((resolve, reject) => {
        ends.push((error) => (error === undefined ? resolve() : reject(error)));
      });
    return { ends, flush };
  }

  test('flushes after a write, and not without one', async () => {
    let flushes = 0;
    const flush = async () => void flushes++;
    const bucket = new SqliteBucket(fresh(), { flush });
    await bucket.settled();
    const opened = flushes;
    const writes = [
      () => bucket.set('k', Uint8Array.of(1)),
      () => bucket.swap('k', bucket.get('k')?.version, Uint8Array.of(2)),
      () => bucket.delete('k'),
    ];
    for (const [index, write] of writes.entries()) {
      write();
      await bucket.settled();
      assert.equal(flushes, opened + index + 1);
      bucket.get('k');
      await bucket.settled();
      assert.equal(flushes, opened + index + 1);
    }
    await bucket.close();
  });

  test('never flushes when normal', async () => {
    const bucket = new SqliteBucket(fresh(), { sync: 'normal', flush: () => assert.fail('flushed') });
    bucket.set('k', Uint8Array.of(1));
    await bucket.settled();
    await bucket.close();
  });

  test('shares one flush among all who come together', async () => {
    const { ends, flush } = slowDisk();
    const bucket = new SqliteBucket(fresh(), { flush });
    const first = bucket.settled();
    assert.equal(ends.length, 1);
    const log: string[] = [];
    const later = Array.from({ length: 10 }, async (_, number) => {
      bucket.set(`k${number}`, Uint8Array.of(1));
      await bucket.settled();
      log.push('later');
    });
    // Comes in the very turn in which the first flush ends, when the next is promised and not begun.
    const between = first.then(() => {
      bucket.set('between', Uint8Array.of(1));
      return bucket.settled();
    });
    ends[0]?.();
    await first;
    while (ends.length < 2) await new Promise(setImmediate);
    assert.deepEqual(log, [], 'a flush that began before a write does not settle it');
    ends[1]?.();
    await Promise.all([...later, between]);
    assert.equal(ends.length, 2);
    await bucket.close();
  });

  test('fails when the flush fails, and flushes again', async () => {
    const { ends, flush } = slowDisk();
    const bucket = new SqliteBucket(fresh(), { flush });
    const first = bucket.settled();
    ends[0]?.(new Error('EIO'));
    await assert.rejects(first, (error) => error instanceof BucketError && error.code === 'failed');
    const second = bucket.settled();
    ends[1]?.();
    await second;
    assert.equal(ends.length, 2);
    await bucket.close();
  });
});

describe('a bucket URL', () => {
  const invalid = [
    '',
    'memory',
    'memory:x',
    'redis:',
    'constructor:',
    'SQLITE:a.db',
    'sqlite:',
    'sqlite:?sync=full',
    'sqlite::memory:',
    'sqlite:%',
    'sqlite:%ff',
    'sqlite:a.db?sync=off',
    'sqlite:a.db?busy=',
    'sqlite:a.db?busy=-1',
    'sqlite:a.db?busy=1.5',
    'sqlite:a.db?busy=99999999',
    'sqlite:a.db?mode=ro',
  ];
  for (const url of invalid)
    test(`${JSON.stringify(url)} is refused`, () => throwsCode('invalid', () => openBucket(url)));

  test('names a path in a folder that does not exist: unavailable', () => {
    throwsCode('unavailable', () => openBucket(`sqlite:${join(folder, 'nowhere', 'a.db')}`));
  });

  test('row 57 opens memory and files', async () => {
    const memory = openBucket('memory:');
    assert.ok(memory instanceof MemoryBucket);
    const bucket = openBucket(`sqlite:${join(folder, 'a%20b%3F.db')}?sync=normal&busy=10`);
    assert.ok(bucket instanceof SqliteBucket);
    assert.ok(statSync(join(folder, 'a b?.db')).isFile());
    await bucket.close();
  });
});
