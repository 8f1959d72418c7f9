import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

test('4,000 mixed calls are all answered rightly, and leave no growing heap behind', () => {
  const main = fileURLToPath(new URL('main.ts', import.meta.url));
  const run = spawnSync(process.execPath, [main, '--calls', '4000', '--tolerance', '50'], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stdout + run.stderr);
  assert.match(run.stdout, /^steady: /m);
});
