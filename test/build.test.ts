import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const parts = ['build.mjs', 'package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.package.json'];
let copy = '';

function build(...flags: string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, ['build.mjs', ...flags], { cwd: copy, encoding: 'utf8', timeout: 300_000 });
}

before(() => {
  copy = mkdtempSync(join(tmpdir(), 'mcp-session-build-'));
  for (const part of [...parts, 'wit', 'src', 'host', 'dist'])
    cpSync(join(root, part), join(copy, part), { recursive: true });
  rmSync(join(copy, 'dist', '.lock'), { force: true });
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  assert.equal(build().status, 0);
});

after(() => rmSync(copy, { recursive: true, force: true }));

test('without a change nothing is built, which is said at once, and not on stdout', () => {
  const started = performance.now();
  const { status, stdout, stderr } = build();
  // 0.3 seconds alone; twice that beside the other tests.
  assert.ok(performance.now() - started < 600);
  assert.equal(status, 0);
  assert.equal(stdout, '');
  assert.match(stderr, /^nothing to build/);
  assert.equal(build('--quiet').stderr, '');
});

test('a change of the host alone builds no component', () => {
  writeFileSync(join(copy, 'host', 'new.ts'), 'export const one: number = 1;\n');
  const { status, stderr } = build();
  assert.equal(status, 0, stderr);
  assert.match(stderr, /^host /m);
  assert.doesNotMatch(stderr, /^(types|bundle|session\.wasm {2,}\d+\.\d s)/m);
  assert.equal(readFileSync(join(copy, 'dist', 'host', 'new.js'), 'utf8').trim(), 'export const one = 1;');
});

test("a build that was killed is done again, and its lock is in nobody's way", async () => {
  rmSync(join(copy, 'dist', '.stamps', 'transitions.wasm'));
  const child = spawn(process.execPath, ['build.mjs'], { cwd: copy, stdio: 'ignore' });
  while (!existsSync(join(copy, 'dist', '.lock'))) await new Promise((resolve) => setTimeout(resolve, 5));
  child.kill('SIGKILL');
  await new Promise((resolve) => child.on('exit', resolve));
  assert.equal(existsSync(join(copy, 'dist', '.stamps', 'transitions.wasm')), false);
  const { status, stderr } = build();
  assert.equal(status, 0, stderr);
  assert.match(stderr, /^transitions\.wasm +\d+\.\d s/m);
  assert.match(build().stderr, /^nothing to build/);
});

test('a component that imports something else is no build', () => {
  const script = join(copy, 'build.mjs');
  const source = readFileSync(script, 'utf8');
  writeFileSync(script, source.replace('transitions: [],', "transitions: ['wasi:clocks/wall-clock@0.2.12'],"));
  const { status, stderr } = build();
  assert.notEqual(status, 0);
  assert.match(stderr, /transitions\.wasm does not import wasi:clocks/);
  assert.equal(existsSync(join(copy, 'dist', '.stamps', 'transitions-glue')), false);
});
