import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { transformSync } from 'esbuild';
import { bin, root, start, temporaryFolder } from './run.ts';

const folder = temporaryFolder();

/** What makes this Node say that it is another. */
function pretending(version: string): string[] {
  const code = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`;
  return ['--import', `data:text/javascript,${encodeURIComponent(code)}`];
}

/** A package in which `node_modules/node` says that it has that version; without one if `undefined`. */
function packageWith(version: string | undefined): string {
  const place = join(folder, `with-${version}`);
  mkdirSync(join(place, 'host'), { recursive: true });
  copyFileSync(bin, join(place, 'host', 'bin.mjs'));
  copyFileSync(join(root, 'package.json'), join(place, 'package.json'));
  writeFileSync(join(place, 'host', 'main.ts'), 'console.log(process.argv.slice(2).join());');
  if (version !== undefined) {
    const node = join(place, 'node_modules', 'node');
    mkdirSync(join(node, 'bin'), { recursive: true });
    writeFileSync(join(node, 'package.json'), JSON.stringify({ name: 'node', version }));
    symlinkSync(process.execPath, join(node, 'bin', 'node'));
  }
  return join(place, 'host', 'bin.mjs');
}

test('is read by Node 12: no syntax that it does not know', () => {
  const source = readFileSync(bin, 'utf8');
  const { code } = transformSync(source, { target: 'node12.20', format: 'esm' });
  const { code: asIs } = transformSync(source, { target: 'esnext', format: 'esm' });
  assert.equal(code, asIs);
  assert.doesNotMatch(source, /from 'node:|import\('node:/);
});

test('a Node that is too old, with none beside it, is told what to do in one line', () => {
  const alone = packageWith(undefined);
  for (const version of ['12.22.12', '18.20.0', '24.20.9']) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...pretending(version), alone, 'serve'], {
      encoding: 'utf8',
    });
    assert.equal(status, 1);
    assert.equal(stdout, '');
    const expected = `this is Node ${version}, and 24.21.0 or newer is needed: npx -p node@26 -p mcp-session mcp-session`;
    assert.equal(stderr, `mcp-session: ${expected}\n`);
  }
});

test('a Node beside it that is too old as well is not started', () => {
  const { status, stderr } = spawnSync(process.execPath, [...pretending('20.0.0'), packageWith('22.0.0'), 'serve'], {
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  assert.match(stderr, /^mcp-session: this is Node 20\.0\.0, and [^\n]+\n$/);
});

test('a newer Node beside it runs the same arguments', () => {
  const args = [...pretending('20.0.0'), packageWith('26.0.0'), 'serve', '--port', '0'];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.deepEqual([status, stdout, stderr], [0, 'serve,--port,0\n', '']);
});

test('versions that are new enough are', () => {
  for (const version of ['24.21.0', '24.22.0', '25.0.0', '26.10.0', '100.0.0']) {
    const args = [...pretending(version), packageWith(undefined), 'x'];
    assert.equal(spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout, 'x\n', version);
  }
});

test('the status and the signals of the newer Node are its own', async () => {
  const serve = (...more: string[]) => {
    const child = start([...pretending('20.0.0'), bin, 'serve', '--bucket', 'memory:', '--port', '0', ...more]);
    const exit = once(child, 'exit');
    return { child, exit };
  };
  const wrong = serve('--mode', 'half');
  assert.deepEqual(await wrong.exit, [2, null]);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { child, exit } = serve();
    await once(child.stdout, 'data');
    child.kill(signal);
    assert.deepEqual(await exit, [0, null]);
  }
});

test('a checkout that was not built says so', () => {
  const place = join(folder, 'not-built');
  mkdirSync(join(place, 'host'), { recursive: true });
  copyFileSync(bin, join(place, 'host', 'bin.mjs'));
  copyFileSync(join(root, 'package.json'), join(place, 'package.json'));
  writeFileSync(join(place, 'host', 'main.ts'), `import '#dist/absent.js';`);
  const { status, stderr } = spawnSync(process.execPath, [join(place, 'host', 'bin.mjs')], { encoding: 'utf8' });
  assert.deepEqual([status, stderr], [1, 'mcp-session: not built yet: run npm run build\n']);
  assert.equal(dirname(place), folder);
});
