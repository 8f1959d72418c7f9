import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

let folder: string;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-session-'));
});

after(() => rm(folder, { recursive: true }));

function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  return new Promise((done) => {
    const child = execFile(process.execPath, ['host/bin.mjs', ...args], (_, out, err) => {
      done({ code: child.exitCode ?? -1, out, err });
    });
  });
}

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
  log(): string;
  out(): string;
}

async function serving(...args: string[]): Promise<Served> {
  const child = spawn(process.execPath, ['host/bin.mjs', 'serve', '--port', '0', ...args]);
  let log = '';
  let out = '';
  child.stderr.on('data', (part) => {
    log += part;
  });
  child.stdout.on('data', (part) => {
    out += part;
  });
  await once(child.stdout, 'data');
  return { child, url: out.replace('listening on ', '').trim(), log: () => log, out: () => out };
}

async function stopped({ child }: Served, signal: NodeJS.Signals): Promise<number | null> {
  const exit = once(child, 'exit');
  child.kill(signal);
  return (await exit)[0];
}

const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

async function initialize(url: string): Promise<string> {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params });
  const response = await fetch(url, { method: 'POST', headers, body });
  assert.equal(response.status, 200);
  return response.headers.get('mcp-session-id') ?? '';
}

async function call(url: string, id: string, name: string, args: object = {}): Promise<string> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } });
  const response = await fetch(url, { method: 'POST', headers: { ...headers, 'Mcp-Session-Id': id }, body });
  assert.equal(response.status, 200);
  const { result } = (await response.json()) as { result: { content: { text: string }[] } };
  return result.content[0]?.text ?? '';
}

describe('the command line', () => {
  test('names what is wrong and what is allowed, and exits with 2', async () => {
    const wrong: [string[], RegExp][] = [
      [[], /no command: expected serve, sessions/],
      [['start'], /unknown command "start"/],
      [['serve', '--bogus'], /--bogus.*expected --bucket/],
      [['serve', '--stdio'], /--stdio.*expected --bucket/],
      [['serve', 'a.ts', 'b.ts'], /one APP, not also "b.ts"/],
      [['serve', '--port', '70000'], /--port "70000": expected a number from 0 to 65535/],
      [['serve', '--mode', 'half'], /--mode "half": expected stateful, stateful-for-initialize, stateless/],
      [['serve', '--session-ttl', '0'], /--session-ttl "0": expected a time/],
      [['serve', '--session-ttl', '-1s'], /session-ttl/],
      [['serve', '--state-ttl', 'abc'], /--state-ttl "abc": expected a time/],
      [['serve', '--session-ttl', '1e20h'], /--session-ttl "1e20h": expected a time/],
      [['serve', '--path', 'mcp'], /--path "mcp": expected a path that begins with a slash/],
      [['serve', '--log-level', 'loud'], /--log-level "loud": expected debug, info, warning, error/],
      [['serve', '--log-format', 'xml'], /--log-format "xml": expected pretty, json/],
      [['serve', '--bucket', 'redis:x'], /bucket: expected memory: or sqlite:PATH/],
      [['serve', '--bucket', 'sqlite:'], /expected the path of a file/],
      [['serve', '--bucket', 'sqlite:x.db?sync=maybe'], /sync: expected full or normal/],
      [['sessions'], /no action: expected list, show ID/],
      [['sessions', 'show'], /expected one ID/],
      [['sessions', 'list', 'x'], /expected nothing after it/],
      [['sessions', 'delete', 'x', '--reason', 'y'], /--reason goes with sessions terminate/],
    ];
    for (const [args, message] of wrong) {
      const { code, out, err } = await run(...args);
      assert.equal(code, 2, args.join(' '));
      assert.match(err, message);
      assert.equal(err.trim().split('\n').length, 1);
      assert.equal(out, '');
    }
  });

  test('says what failed, and exits with 1', async () => {
    const plain = join(folder, 'plain.mjs');
    await writeFile(plain, 'export default {};');
    const noise = join(folder, 'noise.db');
    await writeFile(noise, 'this is no database, however long one looks at it. '.repeat(40));
    const failing: [string[], RegExp][] = [
      [['serve', join(folder, 'absent.ts'), '--bucket', 'memory:'], /cannot load/],
      [['serve', plain, '--bucket', 'memory:'], /its default export is no Registry/],
      [['serve', 'tools.wasm', '--bucket', 'memory:'], /this version serves TypeScript/],
      [['serve', '--bucket', `sqlite:${noise}`], /file is not a database/],
      [['serve', '--bucket', `sqlite:${join(folder, 'no/such/folder.db')}`], /cannot open/],
      [['sessions', 'show', 'unknown', '--bucket', `sqlite:${join(folder, 'new.db')}`], /no such session/],
    ];
    for (const [args, message] of failing) {
      const { code, out, err } = await run(...args);
      assert.equal(code, 1, `${args.join(' ')}: ${err}`);
      assert.match(err, message);
      assert.equal(out, '');
    }
  });

  test('tells its version and every flag', async () => {
    assert.match((await run('--version')).out, /^\d+\.\d+\.\d+\n$/);
    assert.match((await run('--help')).out, /sessions list\|show ID\|terminate ID\|delete ID/);
    const { out } = await run('serve', '--help');
    const flags =
      'bucket host port path mode session-ttl state-ttl allow-origin allow-host namespace log-level log-format';
    for (const flag of flags.split(' ')) assert.match(out, new RegExp(`--${flag} `));
    assert.match((await run('sessions', '--help')).out, /--reason TEXT/);
  });

  test('lists, shows, terminates and deletes while a server runs on the same file', async () => {
    const bucket = `sqlite:${join(folder, 'admin.db')}`;
    const server = await serving('--bucket', bucket, '--log-format', 'json', '--log-level', 'debug');
    const [one, two] = [await initialize(server.url), await initialize(server.url)];
    await call(server.url, one, 'remember', { what: 'kept secret' });
    const list = await run('sessions', 'list', '--bucket', bucket, '--json');
    const listed = list.out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(listed.map(({ id }) => id).sort(), [one, two].sort());
    const shown = JSON.parse((await run('sessions', 'show', one, '--bucket', bucket)).out);
    assert.equal(shown.state, 'live');
    assert.deepEqual(shown.keys, ['seen']);
    assert.equal((await run('sessions', 'terminate', one, '--reason', 'over', '--bucket', bucket)).out, 'terminated\n');
    assert.equal(JSON.parse((await run('sessions', 'show', one, '--bucket', bucket)).out).reason, 'over');
    assert.equal((await run('sessions', 'delete', one, '--bucket', bucket)).out, 'deleted\n');
    assert.equal((await run('sessions', 'delete', two, '--bucket', bucket)).out, 'deleted\n');
    assert.equal((await run('sessions', 'delete', two, '--bucket', bucket)).code, 1);
    const gone = await fetch(server.url, { method: 'DELETE', headers: { 'Mcp-Session-Id': two } });
    assert.equal(gone.status, 404);
    assert.equal((await run('sessions', 'list', '--bucket', bucket)).out, '');
    assert.equal(await stopped(server, 'SIGTERM'), 0);
    assert.match(server.out(), /^listening on http:\/\/127\.0\.0\.1:\d+\/mcp\n$/);
    const lines = server
      .log()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.ok(lines.some(({ event }) => event === 'session created'));
    for (const secret of [one, two, 'kept secret']) assert.ok(!server.log().includes(secret));
  });

  test('a port that is taken is said in one line', async () => {
    const server = await serving('--bucket', 'memory:');
    const { code, err } = await run('serve', '--bucket', 'memory:', '--port', new URL(server.url).port);
    assert.equal(code, 1);
    assert.match(err, /EADDRINUSE/);
    assert.equal(await stopped(server, 'SIGINT'), 0);
  });

  test('every acknowledged call is there after kill -9, twenty times over', async () => {
    const bucket = `sqlite:${join(folder, 'killed.db')}`;
    let session = '';
    let acknowledged = 0;
    for (let round = 0; round < 20; round++) {
      const server = await serving('--bucket', bucket, '--log-level', 'error');
      if (session === '') session = await initialize(server.url);
      const found = Number.parseInt(await call(server.url, session, 'remember', { what: 'restart' }), 10);
      // The last call before the kill may have been made without anybody hearing of it.
      assert.ok(
        found === acknowledged + 1 || found === acknowledged + 2,
        `${acknowledged} acknowledged, ${found - 1} found`,
      );
      acknowledged = found;
      let isKilled = false;
      const exit = once(server.child, 'exit');
      const stream = (async () => {
        for (;;) {
          try {
            acknowledged = Number.parseInt(await call(server.url, session, 'remember', { what: 'x' }), 10);
          } catch (error) {
            if (isKilled) return;
            throw error;
          }
          if (acknowledged >= found + 5 + round && !isKilled) {
            isKilled = true;
            server.child.kill('SIGKILL');
          }
        }
      })();
      await stream;
      await exit;
    }
    assert.ok(acknowledged > 200);
  });
});
