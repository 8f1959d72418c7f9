import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { call, initialize, Served, temporaryFolder } from './run.ts';

const folder = temporaryFolder();

test('row 90 every acknowledged call is there after kill -9, twenty times over', async () => {
  const bucket = `sqlite:${join(folder, 'killed.db')}`;
  let session = '';
  let acknowledged = 0;
  for (let round = 0; round < 20; round++) {
    const server = await Served.start('--bucket', bucket, '--log-level', 'error');
    if (session === '') session = await initialize(server.url);
    const found = Number.parseInt(await call(server.url, session, 'remember', { what: 'restart' }), 10);
    // The last call before the kill may have been made without anybody hearing of it.
    const isKept = found === acknowledged + 1 || found === acknowledged + 2;
    assert.ok(isKept, `${acknowledged} acknowledged, ${found - 1} found`);
    acknowledged = found;
    let isKilled = false;
    for (;;) {
      try {
        acknowledged = Number.parseInt(await call(server.url, session, 'remember', { what: 'x' }), 10);
      } catch (error) {
        if (isKilled) break;
        throw error;
      }
      if (acknowledged >= found + 5 + round && !isKilled) {
        isKilled = true;
        server.child.kill('SIGKILL');
      }
    }
    await server.exit;
  }
  assert.ok(acknowledged > 200);
});
