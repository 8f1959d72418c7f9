import assert from 'node:assert/strict';
import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join, relative } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { call, eachOf, initialize, root, run, Served, temporaryFolder } from './run.ts';

const folder = temporaryFolder();
const registry = JSON.stringify(pathToFileURL(join(root, 'host', 'registry.ts')).href);

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const memory = ['--bucket', 'memory:'];

describe('serve', () => {
  test('prints one line when it is ready, and takes a free port for 0', async () => {
    const served = await Served.start(...memory, '--path', '/other/path');
    assert.match(served.out, /^listening on http:\/\/127\.0\.0\.1:[1-9]\d*\/other\/path\n$/);
    await call(served.url, await initialize(served.url), 'bump');
    assert.equal(await served.stop(), 0);
    assert.match(served.out, /^[^\n]+\n$/);
  });

  test('serves the registry of a module, found from the working directory', async () => {
    file(
      'app.ts',
      `import { Registry } from ${registry};
       const app: Registry = new Registry({ name: 'app', version: '1' });
       app.tool('hello', {}, () => 'hello from app');
       export default app;`,
    );
    const served = await Served.start(relative(root, join(folder, 'app.ts')), ...memory);
    assert.equal(await call(served.url, await initialize(served.url), 'hello'), 'hello from app');
    assert.equal(await served.stop(), 0);
  });

  test('takes a registry that another copy of the package made', async () => {
    const copy = join(folder, 'copy');
    for (const part of ['host', 'src']) cpSync(join(root, part), join(copy, part), { recursive: true });
    for (const part of ['dist', 'node_modules', 'package.json']) symlinkSync(join(root, part), join(copy, part));
    writeFileSync(
      join(copy, 'app.ts'),
      `import { Registry } from './host/registry.ts';
       const app = new Registry({ name: 'copy', version: '1' });
       app.tool('hello', {}, () => 'hello from a copy');
       export default app;`,
    );
    const served = await Served.start(join(copy, 'app.ts'), ...memory);
    assert.equal(await call(served.url, await initialize(served.url), 'hello'), 'hello from a copy');
    assert.equal(await served.stop(), 0);
  });

  test('says in one line why an app cannot be served, and exits with 1', async () => {
    const failing: [name: string, text: string | undefined, message: RegExp][] = [
      ['absent.ts', undefined, /cannot load ".*absent\.ts": Cannot find module/],
      ['plain.mjs', 'export default {};', /its default export is no Registry/],
      ['null.mjs', 'export default null;', /its default export is no Registry/],
      ['class.mjs', `export { Registry as default } from ${registry};`, /its default export is no Registry/],
      ['none.mjs', 'export const app = 1;', /it has no default export, expected a Registry/],
      ['empty.ts', '', /it has no default export|default export is no Registry/],
      ['broken.mjs', 'export default {;', /cannot load ".*": Unexpected token ';'/],
      ['enum.ts', 'enum A { B }\nexport default A;', /cannot load ".*enum\.ts": .*enum/],
      ['throws.mjs', 'throw new Error("no licence\\nmcp-session: forged");', /cannot load ".*": no licence$/m],
      ['string.mjs', 'throw "text";', /cannot load ".*": text/],
      ['stuck.mjs', 'await new Promise(() => {}); export default 1;', /waits at its top level/],
      ['missing.mjs', 'import "not-installed-anywhere";', /cannot load ".*": Cannot find package/],
      ['tools.wasm', '\0asm', /this version serves TypeScript and JavaScript modules, not components/],
      ['TOOLS.WASM', '\0asm', /not components/],
    ];
    await eachOf(failing, async ([name, text, message]) => {
      const path = text === undefined ? join(folder, name) : file(name, text);
      const { code, out, err } = await run(['serve', path, '--port', '0', ...memory]);
      assert.equal(code, 1, `${name}: ${err}`);
      assert.match(err, message);
      assert.match(err, /^mcp-session: [^\n]+\n$/);
      assert.equal(out, '');
    });
  });

  test('says in one line why a bucket cannot be opened, and exits with 1', async () => {
    const noise = file('noise.db', 'this is no database, however long one looks at it. '.repeat(40));
    const failing: [bucket: string, message: RegExp][] = [
      [noise, /file is not a database/],
      [join(folder, 'no/such/folder.db'), /cannot open/],
      [folder, /cannot open/],
    ];
    await eachOf(failing, async ([path, message]) => {
      const { code, out, err } = await run(['serve', '--port', '0', '--bucket', `sqlite:${path}`]);
      assert.equal(code, 1, err);
      assert.match(err, message);
      assert.match(err, /^mcp-session: [^\n]+\n$/);
      assert.equal(out, '');
    });
  });

  test('says in one line why it cannot listen, and exits with 1', async () => {
    const served = await Served.start(...memory);
    const { port } = new URL(served.url);
    const failing: [args: string[], message: RegExp][] = [
      [['--port', port], new RegExp(`cannot listen on 127.0.0.1 port ${port}: the port is in use \\(EADDRINUSE\\)`)],
      [['--host', '203.0.113.9', '--port', '0'], /cannot listen on 203\.0\.113\.9 port 0: .* no such address/],
      [['--host', 'no-host.invalid', '--port', '0'], /cannot listen on no-host\.invalid port 0: /],
    ];
    await eachOf(failing, async ([args, message]) => {
      const { code, out, err } = await run(['serve', ...memory, ...args]);
      assert.equal(code, 1, err);
      assert.match(err, message);
      assert.match(err, /^mcp-session: [^\n]+\n$/);
      assert.equal(out, '');
    });
    assert.equal(await served.stop('SIGINT'), 0);
  });

  test('says what an app warns of as a line of the log', async () => {
    const path = file(
      'warns.mjs',
      `import { Registry } from ${registry};
       process.emitWarning('beware\\nof lines');
       export default new Registry({ name: 'app', version: '1' });`,
    );
    const served = await Served.start(path, ...memory, '--log-format', 'json');
    assert.equal(await served.stop(), 0);
    const [warning] = served.events;
    assert.deepEqual([warning?.['event'], warning?.['message']], ['process warning', 'beware\nof lines']);
  });
});

test('a session that may be silent for weeks or years is still there a second later', async () => {
  const buckets = ['memory:', `sqlite:${join(folder, 'long.db')}`];
  const cases = buckets.flatMap((bucket) => ['25d', '30d', '400d', '3650d'].map((ttl) => [bucket, ttl]));
  await eachOf(cases, async ([bucket = '', ttl = '']) => {
    const served = await Served.start(
      '--bucket',
      bucket,
      '--session-ttl',
      ttl,
      '--state-ttl',
      ttl,
      '--log-format',
      'json',
    );
    const id = await initialize(served.url);
    assert.equal(await call(served.url, id, 'bump'), '1');
    await new Promise((done) => setTimeout(done, 1100));
    assert.equal(await call(served.url, id, 'bump'), '2');
    assert.equal(await served.stop(), 0);
    assert.deepEqual(new Set(served.events.map(({ event }) => event)), new Set(['session created', 'stopping']));
  });
});

describe('signals', () => {
  const slow = `import { Registry } from ${registry};
    import { setTimeout as pause } from 'node:timers/promises';
    const app = new Registry({ name: 'slow', version: '1' });
    app.tool('slow', {}, async () => {
      process.stderr.write('slow has begun\\n');
      await pause(1500);
      return 'done';
    });
    app.tool('endless', {}, async () => {
      process.stderr.write('endless has begun\\n');
      await pause(60_000);
      return 'done';
    });
    export default app;`;

  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    test(`${signal} lets a running call finish, refuses new connections and ends with 0`, async () => {
      const served = await Served.start(file('slow.mjs', slow), ...memory);
      const id = await initialize(served.url);
      const running = call(served.url, id, 'slow');
      await served.logged('slow has begun');
      const stopped = served.stop(signal);
      await served.logged('stopping');
      const { hostname, port } = new URL(served.url);
      const socket = connect(Number(port), hostname);
      const refusal = await new Promise((done) => socket.on('error', done).on('connect', done));
      assert.match(String(refusal), /ECONNREFUSED/);
      assert.equal(await running, 'done');
      assert.equal(await stopped, 0);
    });
  }

  test('the same signal told twice at once, as npm and a terminal do, is one', async () => {
    const served = await Served.start(file('slow.mjs', slow), ...memory);
    const running = call(served.url, await initialize(served.url), 'slow');
    await served.logged('slow has begun');
    const stopped = served.stop('SIGINT');
    await served.logged('stopping');
    served.child.kill('SIGINT');
    assert.equal(await running, 'done');
    assert.equal(await stopped, 0);
  });

  test('a second signal ends the process at once', async () => {
    const served = await Served.start(file('slow.mjs', slow), ...memory);
    const running = call(served.url, await initialize(served.url), 'endless').catch(() => 'cut off');
    await served.logged('endless has begun');
    const stopped = served.stop('SIGTERM');
    await served.logged('stopping');
    const started = performance.now();
    // Apart by more than what counts as one signal.
    setTimeout(() => served.child.kill('SIGTERM'), 200);
    assert.equal(await stopped, 1);
    assert.ok(performance.now() - started < 2000);
    assert.equal(await running, 'cut off');
  });

  test('a signal before it listens ends it with 0', async () => {
    const path = file(
      'late.mjs',
      `process.stderr.write('loading\\n'); await new Promise((done) => setTimeout(done, 60_000));`,
    );
    const served = new Served([path, ...memory]);
    await served.logged('loading');
    assert.equal(await served.stop(), 0);
    assert.equal(served.out, '');
  });

  test('an open stream does not hold the end up', async () => {
    const served = await Served.start(...memory);
    const id = await initialize(served.url);
    const headers = { Accept: 'text/event-stream', 'Mcp-Session-Id': id };
    const stream = await fetch(served.url, { headers });
    const started = performance.now();
    const stopped = served.stop();
    await stream.text().catch(() => undefined);
    assert.equal(await stopped, 0);
    assert.ok(performance.now() - started < 5000);
  });
});
