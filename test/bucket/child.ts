// One process of several that share a file; `sqlite.test.ts` starts it: TASK PATH [COUNT].
import { writeSync } from 'node:fs';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';

const [task, path = '', count = '0'] = process.argv.slice(2);
const bucket = new SqliteBucket(path, { busy: 60_000 });

if (task === 'increment') {
  for (let done = 0; done < Number(count); ) {
    const entry = bucket.get('count');
    const next = Buffer.from(String(Number(Buffer.from(entry?.value ?? []).toString()) + 1));
    if (bucket.swap('count', entry?.version, next) !== undefined) done++;
  }
  await bucket.close();
} else if (task === 'create') {
  bucket.set(`key ${process.pid}`, Uint8Array.of(1));
  await bucket.close();
} else if (task === 'write') {
  for (let number = 0; ; number++) {
    bucket.set(`key ${number}`, Buffer.from(String(number)));
    await bucket.settled();
    // At once into the pipe: what was said survives the kill.
    writeSync(1, `${number}\n`);
  }
} else {
  throw new Error(`unknown task "${task}"`);
}
