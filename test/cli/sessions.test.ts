import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openBucket } from '../../host/bucket/open.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { recordKey } from '../../src/namespace.ts';
import { bin, call, callTool, eachOf, initialize, run, Served, start, temporaryFolder } from './run.ts';

const folder = temporaryFolder();
const hour = 3_600_000;

/** A bucket of that name, the command line on it, and sessions in it that no server made. */
async function prepared(name: string, ttl = hour) {
  const path = join(folder, name);
  const flags = ['--bucket', `sqlite:${path}`];
  const bucket = openBucket(`sqlite:${path}`);
  const log = (): void => undefined;
  const sessions = new Sessions({ bucket, transitions: await loadTransitions(), log, sessionTtl: ttl, stateTtl: ttl });
  return { path, bucket, sessions, on: (...args: string[]) => run(['sessions', ...args, ...flags]) };
}

describe('sessions, while a server runs on the same file', () => {
  const bucket = ['--bucket', `sqlite:${join(folder, 'shared.db')}`];
  const on = (...args: string[]) => run(['sessions', ...args, ...bucket]);
  let served: Served;

  before(async () => {
    served = await Served.start(...bucket, '--log-format', 'json', '--log-level', 'debug');
  });

  after(() => served.stop());

  test('lists them, one line each', async () => {
    const ids = [await initialize(served.url), await initialize(served.url)];
    await call(served.url, ids[0] ?? '', 'remember', { what: 'kept' });
    const { code, out, err } = await on('list');
    assert.deepEqual([code, err], [0, '']);
    const lines = out.trim().split('\n');
    assert.deepEqual(lines.map((line) => line.split(' ')[0]).sort(), ids.sort());
    const iso = String.raw`\d{4}-\d\d-\d\dT[\d:.]+Z`;
    const shape = new RegExp(
      `^[\\w-]+  live  created ${iso}  used ${iso}  ttl 1h  owner no  values (0  bytes 0|1  bytes 8)$`,
    );
    for (const line of lines) assert.match(line, shape);
    const listed = (await on('list', '--json')).out.trim().split('\n');
    const shown = listed.map((line) => JSON.parse(line)).find(({ values }) => values === 1);
    const { id: _, created, used, ...rest } = shown;
    assert.deepEqual(rest, { state: 'live', ttl: hour, terminated: false, owned: false, values: 1, bytes: 8 });
    assert.ok(Date.parse(created) <= Date.parse(used));
  });

  test('shows keys and sizes, and values only when asked to', async () => {
    const id = await initialize(served.url);
    await call(served.url, id, 'remember', { what: 'a private word' });
    const text = (await on('show', id)).out;
    assert.match(text, /^id {9}[\w-]+\nstate {6}live\n/);
    assert.match(text, /\n {2}"seen" {2}18 bytes\n$/);
    assert.ok(!text.includes('private'));
    assert.match((await on('show', id, '--values')).out, /"seen" {2}18 bytes {2}"\[\\"a private word\\"\]"\n$/);
    const shown = JSON.parse((await on('show', id, '--json')).out);
    assert.deepEqual([shown.id, shown.values, shown.bytes], [id, 1, 18]);
    assert.deepEqual(shown.entries, [{ key: 'seen', bytes: 18 }]);
    const full = JSON.parse((await on('show', id, '--json', '--values')).out);
    assert.deepEqual(full.entries, [{ key: 'seen', bytes: 18, text: '["a private word"]' }]);
  });

  test('what is terminated answers 404 and can still be shown; the first reason is kept', async () => {
    const id = await initialize(served.url);
    await call(served.url, id, 'remember', { what: 'kept' });
    assert.deepEqual(await on('terminate', id, '--reason', 'it is over'), { code: 0, out: 'terminated\n', err: '' });
    assert.equal((await callTool(served.url, id, 'bump')).status, 404);
    assert.equal((await on('terminate', id, '--json', '--reason', 'later')).out, '{"terminated":true}\n');
    assert.match((await on('show', id)).out, /\nterminated yes: "it is over"\n/);
    const shown = JSON.parse((await on('show', id, '--json')).out);
    assert.deepEqual([shown.state, shown.terminated, shown.reason], ['terminated', true, 'it is over']);
  });

  test('what is deleted is gone, for the server and for the next command', async () => {
    const id = await initialize(served.url);
    assert.deepEqual(await on('delete', id), { code: 0, out: 'deleted\n', err: '' });
    assert.equal((await callTool(served.url, id, 'bump')).status, 404);
    for (const action of ['show', 'terminate', 'delete']) {
      assert.deepEqual(await on(action, id), { code: 1, out: '', err: 'mcp-session: no such session\n' });
    }
    const other = await initialize(served.url);
    assert.equal((await on('delete', other, '--json')).out, '{"deleted":true}\n');
    assert.ok(!(await on('list')).out.includes(other));
  });

  test('an id of no session, of any shape, is no such session', async () => {
    const ids = ['A'.repeat(32), '-'.repeat(32), 'short', 'a/b', '../x', 'ü', ''];
    const cases = ids.flatMap((id) => ['show', 'terminate'].map((action) => [action, id]));
    await eachOf(cases, async (args) => {
      const { code, out, err } = await on(...args);
      assert.deepEqual([code, out, err], [1, '', 'mcp-session: no such session\n'], args.join(' '));
    });
  });

  test('the log of the server shows none of these ids', async () => {
    const ids = (await on('list')).out.split('\n').map((line) => line.split(' ')[0] ?? '');
    assert.ok(ids.length > 2);
    for (const id of ids.filter((one) => one !== '')) assert.ok(!served.log.includes(id));
  });
});

describe('sessions, with no server', () => {
  test('another namespace is another set', async () => {
    const { bucket, sessions, on } = await prepared('namespaces.db');
    const inside = await sessions.create('session', { namespace: 'a/b', owner: undefined }, {});
    const outside = await sessions.create('session', { namespace: '', owner: undefined }, {});
    await sessions.close();
    await bucket.close();
    assert.match((await on('list', '--namespace', 'a/b')).out, new RegExp(`^${inside.id} .*\n$`));
    assert.match((await on('list')).out, new RegExp(`^${outside.id} .*\n$`));
    assert.equal((await on('show', inside.id)).code, 1);
    assert.equal((await on('delete', outside.id, '--namespace', 'a/b')).code, 1);
    assert.equal((await on('delete', inside.id, '--namespace', 'a/b')).code, 0);
    assert.equal((await on('show', outside.id)).code, 0);
  });

  test("an owner's session can be looked after, and its owner is not shown", async () => {
    const { bucket, sessions, on } = await prepared('owned.db');
    const session = await sessions.create('session', { namespace: '', owner: 'somebody' }, {});
    await sessions.close();
    await bucket.close();
    for (const args of [['list'], ['show', session.id]]) {
      const { out } = await on(...args);
      assert.match(out, /owner +yes/);
      assert.ok(!out.includes('somebody'));
    }
    assert.equal((await on('terminate', session.id)).out, 'terminated\n');
    assert.equal((await on('delete', session.id)).out, 'deleted\n');
  });

  test('values of every kind are measured, and shown as what they are', async () => {
    const { bucket, sessions, on } = await prepared('values.db');
    const session = await sessions.create('session', { namespace: '', owner: undefined }, {});
    const large = 'é'.repeat(5000);
    await session.set('large', large);
    await session.set('\x1b[2J\n__proto__', 'x');
    await sessions.close();
    await bucket.close();
    const { out } = await on('show', session.id);
    assert.match(out, /\n {2}"large" {2}10002 bytes\n/);
    assert.match(out, /\n {2}"\\u001b\[2J\\n__proto__" {2}3 bytes\n/);
    const { entries } = JSON.parse((await on('show', session.id, '--values', '--json')).out);
    assert.equal(entries.find(({ key }: { key: string }) => key === 'large').text, JSON.stringify(large));
  });

  test('what expired is listed as that, and cannot be terminated any more', async () => {
    const { bucket, sessions, on } = await prepared('expired.db', 1);
    const session = await sessions.create('session', { namespace: '', owner: undefined }, {});
    await sessions.close();
    await bucket.close();
    assert.match((await on('list')).out, / {2}expired {2}/);
    assert.equal(JSON.parse((await on('show', session.id, '--json')).out).state, 'expired');
    assert.deepEqual(await on('terminate', session.id), { code: 1, out: '', err: 'mcp-session: no such session\n' });
  });

  test('a record that cannot be read does not hide the others', async () => {
    const { path, bucket, sessions, on } = await prepared('unreadable.db');
    const session = await sessions.create('session', { namespace: '', owner: undefined }, {});
    await sessions.close();
    await bucket.close();
    const other = new SqliteBucket(path, { sync: 'full', busy: 5000 });
    const id = 'U'.repeat(32);
    other.set(recordKey({ kind: 'session', namespace: '', id }), Buffer.from('{"v":99}\u2028'));
    other.set('something else', Buffer.from('x'));
    await other.close();
    const { code, out } = await on('list');
    assert.equal(code, 0);
    assert.match(out, new RegExp(`^${session.id}  live `, 'm'));
    assert.match(out, new RegExp(`^${id}  unreadable  "`, 'm'));
    assert.equal(out.trim().split('\n').length, 2);
    const shown = await on('show', id);
    assert.equal(shown.code, 1);
    assert.match(shown.err, /^mcp-session: the stored session cannot be used: [^\n]+\n$/);
  });

  test('more sessions than a page are all listed, and a reader may leave early', async () => {
    const { path, bucket, sessions, on } = await prepared('many.db');
    const ids = new Set<string>();
    const scope = { namespace: '', owner: undefined };
    while (ids.size < 2500) {
      const made = await Promise.all(Array.from({ length: 250 }, () => sessions.create('session', scope, {})));
      for (const { id } of made) ids.add(id);
    }
    await sessions.close();
    await bucket.close();
    const lines = (await on('list')).out.trim().split('\n');
    assert.deepEqual(new Set(lines.map((line) => line.split(' ')[0])), ids);
    const child = start([bin, 'sessions', 'list', '--bucket', `sqlite:${path}`]);
    let err = '';
    child.stderr.setEncoding('utf8').on('data', (part) => {
      err += part;
    });
    const exit = once(child, 'exit');
    await once(child.stdout, 'data');
    child.stdout.destroy();
    assert.deepEqual([await exit, err], [[0, null], '']);
  });

  test('a file that is not there is said, and not made', async () => {
    const path = join(folder, 'absent.db');
    const bucket = ['--bucket', `sqlite:${path}`];
    const list = await run(['sessions', 'list', ...bucket]);
    assert.equal(list.code, 1);
    assert.match(list.err, /^mcp-session: cannot open the bucket: there is no file ".*absent\.db"\n$/);
    const show = await run(['sessions', 'show', 'A'.repeat(32), ...bucket]);
    assert.equal(show.code, 1);
    assert.match(show.err, /no such session: there is no file/);
    assert.ok(!existsSync(path));
  });
});
