import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { instantiate } from '../../host/component.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { initialize, Served } from '../cli/run.ts';
import { pythonPrograms } from '../support/python.ts';

const programs = await pythonPrograms();
const component = await instantiate();
const transitions = await loadTransitions();
const { Session } = component.sessions;

let folder: string;
let path: string;
let child: ChildProcess;
let lines: Interface;
let bucket: SqliteBucket;
let files = 0;

type Answer = { ok?: unknown; error?: { tag: string; val: unknown } };

/** Sends one command to the host in Python. */
async function ask(...command: unknown[]): Promise<Answer> {
  const done = new AbortController();
  const ended = once(lines, 'close', { signal: done.signal }).then(() => {
    throw new Error('the host in Python ended');
  });
  const line = once(lines, 'line', { signal: done.signal });
  child.stdin?.write(`${JSON.stringify(command)}\n`);
  try {
    return JSON.parse((await Promise.race([line, ended]))[0]);
  } finally {
    done.abort();
    await ended.catch(() => undefined);
  }
}

async function ok(...command: unknown[]): Promise<unknown> {
  const answer = await ask(...command);
  assert.deepEqual(answer.error, undefined, JSON.stringify(answer.error));
  return answer.ok;
}

const base64 = (text: string) => Buffer.from(text).toString('base64');

/** The status that the client's response to a question is answered with. */
async function answerOver(url: string, session: string, id: string, result: unknown): Promise<number> {
  const headers = {
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    'Mcp-Session-Id': session,
  };
  const body = JSON.stringify({ jsonrpc: '2.0', id, result });
  const response = await fetch(url, { method: 'POST', headers, body });
  await response.text();
  return response.status;
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-session-'));
});

after(() => rm(folder, { recursive: true }));

beforeEach(() => {
  path = join(folder, `${files++}.db`);
  const args = ['test/hosts/wasmtime_host.py', 'dist/session.wasm', '.cache/wasmtime', path];
  child = spawn(join(programs, 'python'), args, { stdio: ['pipe', 'pipe', 'inherit'] });
  lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  bucket = new SqliteBucket(path);
});

afterEach(async () => {
  const exit = once(child, 'exit');
  child.stdin?.end();
  assert.deepEqual(await exit, [0, null]);
  await bucket.close();
});

describe('session.wasm, unchanged, under wasmtime', () => {
  test('does everything of the sessions interface', async () => {
    const id = await ok('initialize');
    assert.match(String(id), /^[\x21-\x7e]{22,}$/);
    assert.equal(await ok('get', 'k'), null);
    await ok('set', 'k', base64('hello 日本語 👍🏽'));
    assert.equal(await ok('get', 'k'), base64('hello 日本語 👍🏽'));
    const blob = Buffer.from(Uint8Array.from({ length: 5000 }, (_, at) => at % 256)).toString('base64');
    await ok('set', 'large', blob);
    assert.equal(await ok('get', 'large'), blob);
    assert.deepEqual((await ok('keys')) as string[], ['k', 'large']);
    await ok('remove', 'large');
    assert.equal(await ok('swap', 'k', base64('other'), base64('x')), false);
    assert.equal(await ok('swap', 'k', base64('hello 日本語 👍🏽'), null), true);
    assert.deepEqual(await ok('keys'), []);
    assert.equal(await ok('is_terminated'), false);
    await ok('terminate', 'over');
    await ok('terminate', 'again');
    assert.equal(await ok('is_terminated'), true);
    assert.deepEqual(await ask('set', 'k', ''), {
      error: { tag: 'unexpected', val: 'the session was terminated: over' },
    });
    assert.equal(await ok('close'), 'resource');
    assert.equal(await ok('open', id), id);
    assert.equal(await ok('delete'), 'resource');
    assert.deepEqual(await ask('open', id), { error: { tag: 'no-such-session', val: null } });
    assert.deepEqual(bucket.list().keys, []);
  });

  test('gives back the bucket and the error when it cannot delete, and says what a failing bucket says', async () => {
    const id = await ok('initialize');
    await ok('fail', 'disk I/O error');
    const error = { tag: 'store', val: { tag: 'other', val: 'disk I/O error' } };
    // Not `get`: the Python package cannot pass the error of a result whose value is an option.
    assert.deepEqual(await ask('set', 'k', ''), { error });
    assert.deepEqual(await ask('terminate'), { error });
    assert.deepEqual(await ok('delete'), ['resource', error]);
    assert.deepEqual(await ask('open', id), { error });
    await ok('fail');
    assert.equal(await ok('open', id), id);
  });

  test('shares sessions with the host in Node, both ways, on one SQLite file', async () => {
    const theirs = String(await ok('initialize'));
    await ok('set', 'k', base64('from wasmtime'));
    const opened = Session.open(component.bucket(bucket), theirs);
    assert.equal(Buffer.from(opened.get('k') ?? '').toString(), 'from wasmtime');
    opened.set('k', Buffer.from('from Node'));
    assert.equal(await ok('get', 'k'), base64('from Node'));
    opened[Symbol.dispose]();

    const session = Session.initialize(component.bucket(bucket));
    session.set('large', Buffer.from('x'.repeat(10_000)));
    assert.equal(await ok('open', session.id()), session.id());
    assert.equal(await ok('get', 'large'), base64('x'.repeat(10_000)));
    await ok('terminate', 'elsewhere');
    assert.equal(session.isTerminated(), true);
    assert.equal(await ok('delete'), 'resource');
    assert.throws(
      () => session.get('large'),
      (error) => {
        assert.deepEqual((error as { payload?: unknown }).payload, { tag: 'no-such-session' });
        return true;
      },
    );
    session[Symbol.dispose]();
  });

  test('asks, waits, and goes on with the typed answer that the host in Node is given over HTTP', async () => {
    const server = await Served.start('--bucket', `sqlite:${path}`);
    const sessions = { 'of the host in Node': initialize(server.url), 'of wasmtime': ok('initialize') };
    for (const [whose, made] of Object.entries(sessions)) {
      const id = String(await made);
      assert.equal(await ok('open', id), id);
      const event = /^data: (.*)\n\n$/.exec(String(await ok('elicit')));
      const request = JSON.parse(event?.[1] ?? '');
      assert.equal(request.method, 'elicitation/create');
      assert.deepEqual(request.params.requestedSchema.required, ['people']);
      const waiting = ok('result');
      const misfit = await answerOver(server.url, id, request.id, { action: 'accept', content: { people: 41 } });
      assert.equal(misfit, 400, whose);
      const status = await answerOver(server.url, id, request.id, { action: 'accept', content: { people: 6 } });
      assert.equal(status, 202, whose);
      // The Python package leaves out the case of a variant whose cases differ in type.
      const answer = { tag: 'form', val: { action: 'accept', content: [['people', 6]] } };
      assert.deepEqual(await waiting, answer);
      assert.deepEqual(await ok('result'), answer);
      await ok('set', 'people', base64('6'));
    }
    assert.equal(await server.stop(), 0);
  });

  test('hears that the host in Node ended the session while it waits', async () => {
    const server = await Served.start('--bucket', `sqlite:${path}`);
    const id = await initialize(server.url);
    await ok('open', id);
    await ok('elicit');
    const waiting = ok('result');
    const ended = await fetch(server.url, { method: 'DELETE', headers: { 'Mcp-Session-Id': id } });
    assert.equal(ended.status, 204);
    assert.deepEqual(await waiting, { tag: 'none', val: { tag: 'session-ended', val: null } });
    assert.equal(await server.stop(), 0);
  });

  test('leaves no question open that it could not send', async () => {
    const id = String(await ok('initialize'));
    const { error } = await ask('elicit', true);
    assert.equal(error?.tag, 'io');
    const entry = bucket.get(transitions.recordKey('session', '', id));
    const view = transitions.examine(Buffer.from(entry?.value ?? '').toString());
    assert.deepEqual(JSON.parse(view.questions), {});
  });
});
