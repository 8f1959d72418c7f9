import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { logLevels } from '../../host/config.ts';
import { Audit } from '../support/audit.ts';
import { createLog, type LogOptions } from '../../host/write-log.ts';
import { bin, call, initialize, Served, start } from './run.ts';

function logTo(lines: string[], options: Partial<LogOptions> = {}) {
  return createLog({ level: 'debug', format: 'json', write: (line) => lines.push(line), ...options });
}

test('an event is one line of JSON with its time, level and fields', () => {
  const lines: string[] = [];
  const before = Date.now();
  logTo(lines)('info', 'session created', { store: 'sqlite', ttl: 5, owned: false, absent: undefined });
  assert.equal(lines.length, 1);
  const { time, ...rest } = JSON.parse(lines[0] ?? '');
  assert.ok(Date.parse(time) >= before && Date.parse(time) <= Date.now());
  assert.deepEqual(rest, { level: 'info', event: 'session created', store: 'sqlite', ttl: 5, owned: false });
  assert.match(lines[0] ?? '', /^\{"time":"[^"]+","level":"info","event":"session created",.*\}\n$/);
});

test('events below the level are not written', () => {
  for (const [least, level] of logLevels.entries()) {
    const lines: string[] = [];
    const log = logTo(lines, { level });
    for (const one of logLevels) log(one, 'x');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).level),
      logLevels.slice(least),
    );
  }
});

const hostile = [
  'a\nb',
  'a\r\n{"level":"error"}',
  'a\u2028b\u2029c\u0085d',
  '\x1b[2Jgone\x07\x00\x7f\x9b31m',
  'right \u202e left \u2066 \ufeff',
  '"quoted" name=value',
  '\ud800 lone',
  'tag \u{e0041}',
];

test('nothing in an event begins a line, acts on a terminal or passes for another field', () => {
  for (const text of hostile) {
    for (const format of ['json', 'pretty'] as const) {
      const lines: string[] = [];
      logTo(lines, { format })('info', `event ${text}`, { [`name ${text}`]: text, level: 'error', time: 'never' });
      assert.equal(lines.length, 1);
      const line = lines[0] ?? '';
      assert.match(line, /^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+\n$/u, JSON.stringify(line));
      if (format === 'json') {
        const { event, time, level, ...fields } = JSON.parse(line);
        assert.equal(level, 'info');
        assert.notEqual(time, 'never');
        assert.deepEqual([event, fields], [`event ${text}`, { [`name ${text}`]: text }]);
      } else assert.ok(!/ name=value(?!")/.test(line.replace(/"(?:[^"\\]|\\.)*"/g, '""')), line);
    }
  }
});

test('a person reads time, level, event and fields; colour only where it is asked for', () => {
  const lines: string[] = [];
  const fields = { session: 'a1b2', reason: 'owner-mismatch', error: 'no space left', ttl: 5, absent: undefined };
  logTo(lines, { format: 'pretty' })('warning', 'session rejected', fields);
  const rest = 'session rejected session=a1b2 reason=owner-mismatch error="no space left" ttl=5\n';
  assert.equal(lines[0]?.slice(25), `warning ${rest}`);
  logTo(lines, { format: 'pretty', colour: true })('warning', 'session rejected', fields);
  assert.equal(lines[1]?.slice(25), `\x1b[33mwarning\x1b[0m ${rest}`);
});

test('a log that is no terminal is not coloured', async () => {
  const served = await Served.start('--bucket', 'memory:');
  await initialize(served.url);
  assert.equal(await served.stop(), 0);
  assert.match(served.log, /info {4}session created store=memory/);
  assert.ok(!served.log.includes('\x1b'));
});

test('row 82 row 83 ids, namespaces and values stay out of the log; every line is JSON', async () => {
  const args = [
    '--bucket',
    'memory:',
    '--namespace',
    'secret-namespace',
    '--log-level',
    'debug',
    '--log-format',
    'json',
  ];
  const served = await Served.start(...args);
  const id = await initialize(served.url);
  await call(served.url, id, 'remember', { what: 'secret value' });
  const invented = 'Z'.repeat(32);
  const headers = { 'Mcp-Session-Id': invented };
  assert.equal((await fetch(`${served.url}?secret=query`, { method: 'DELETE', headers })).status, 404);
  assert.equal((await fetch(served.url, { method: 'DELETE', headers: { 'Mcp-Session-Id': id } })).status, 204);
  assert.equal(await served.stop(), 0);
  const events = served.events.map(({ event }) => event);
  for (const expected of ['session created', 'session rejected', 'session deleted', 'stopping']) {
    assert.ok(events.includes(expected), `${expected} of ${events.join(', ')}`);
  }
  const audit = new Audit();
  audit.keepSecret(id, invented, 'secret');
  audit.hear(served.events);
  audit.check();
  assert.equal(served.out, `listening on ${served.url}\n`);
});

test('a server goes on when nobody reads its log and its output any more', async () => {
  const child = start([bin, 'serve', '--port', '0', '--bucket', 'memory:', '--log-level', 'debug']);
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  const url = String(line).replace('listening on ', '').trim();
  child.stderr.destroy();
  child.stdout.destroy();
  for (let round = 0; round < 5; round++) await call(url, await initialize(url), 'bump');
  assert.equal(child.exitCode, null);
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  assert.deepEqual(await exit, [0, null]);
});
