import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { ParseArgsOptionsConfig } from 'node:util';
import { defaults } from '../../host/config.ts';
import { readServe, readSessions, serveFlags, sessionsFlags, UsageError } from '../../host/flags.ts';
import { defaults as libraryDefaults } from '../../host/library.ts';
import { eachOf, root, run } from './run.ts';

const tooLong = 'é'.repeat(513);

/** Arguments, and what the one line says. */
const wrong: readonly [args: string[], message: RegExp][] = [
  [[], /no command: expected serve, sessions, --version or --help/],
  [['start'], /unknown command "start": expected serve/],
  [['--port', '3'], /unknown flag "--port": expected serve/],
  [['--version', 'x'], /--version: expected nothing after it, not "x"/],
  [['--help', 'x'], /--help: expected nothing after it, not "x"/],
  [['serve', '--bogus'], /unknown option '--bogus': expected --stdio .* --help/],
  [['serve', '-p'], /unknown option '-p': expected --stdio/],
  [['serve', '--stdio=yes'], /'--stdio' does not take an argument/],
  [['serve', '--stdio', '--port', '0'], /--port: expected no such flag beside --stdio, which opens no port/],
  [['serve', '--host=::1', '--stdio'], /--host: expected no such flag beside --stdio/],
  [['serve', '--stdio', '--path', '/mcp'], /--path: expected no such flag beside --stdio/],
  [['serve', '--stdio', '--allow-origin', '*'], /--allow-origin: expected no such flag beside --stdio/],
  [['serve', '--stdio', '--allow-host', '*'], /--allow-host: expected no such flag beside --stdio/],
  [['serve', '--help=1'], /'--help' does not take an argument/],
  [['serve', '--bogus\nmcp-session: forged'], /unknown option '--bogus/],
  [['serve', 'a.ts', 'b.ts'], /one APP, not also "b.ts"/],
  [['serve', ''], /expected the path of APP, not ""/],
  [['serve', '--bucket', 'redis:x'], /--bucket: expected memory: or sqlite:PATH/],
  [['serve', '--bucket', ''], /--bucket: expected memory: or sqlite:PATH/],
  [['serve', '--bucket', 'sqlite:'], /--bucket: expected the path of a file/],
  [['serve', '--bucket', 'sqlite:%zz'], /--bucket: the path after "sqlite:" is not percent-encoded/],
  [['serve', '--bucket', 'sqlite:x.db?sync=maybe'], /--bucket: sync: expected full or normal/],
  [['serve', '--bucket', 'sqlite:x.db?speed=1'], /--bucket: unknown parameter "speed", expected sync or busy/],
  [['sessions'], /sessions: no action: expected list, show ID/],
  [['sessions', 'bogus'], /sessions: unknown action "bogus": expected list, show ID/],
  [['sessions', 'show'], /sessions show: expected one ID/],
  [['sessions', 'delete'], /sessions delete: expected one ID/],
  [['sessions', 'show', 'a', 'b'], /sessions show: expected one ID, not "b"/],
  [['sessions', 'list', 'x'], /sessions list: expected nothing, not "x"/],
  [['sessions', 'delete', 'x', '--reason', 'y'], /sessions delete: --reason goes with terminate/],
  [['sessions', 'list', '--values'], /sessions list: --values goes with show/],
  [['sessions', 'list', '--json=yes'], /'--json' does not take an argument/],
  [['sessions', 'list', '--port', '1'], /unknown option '--port': expected --bucket --namespace/],
  [['sessions', 'list', '--bucket', 'memory:'], /--bucket "memory:": expected sqlite:PATH/],
];

const time = 'expected a time of 1ms to 3650d, such as 500ms, 90s, 10m, 1h or 30d';

/** A flag of `serve`, values that it refuses, and what it says that it expects. */
const refused: readonly [flag: string, values: string[], expected: string][] = [
  ['host', ['', 'http://x', 'a b', '[::1]'], 'expected a name or address such as localhost, 127.0.0.1 or ::1'],
  ['port', ['', '70000', '65536', '-1', '3.5', 'abc', '0x10', ' 1', 'NaN'], 'expected a number from 0 to 65535'],
  ['path', ['', 'mcp', '/a b', '/a?b', '/a#b', '//a', '/a/../b', '/./a', '/%41'], 'expected a path that begins'],
  ['path', ['/health'], 'expected another path, this one is taken'],
  ['mode', ['', 'half', 'Stateful'], 'expected stateful, stateful-for-initialize, stateless'],
  ['session-ttl', ['', '0', '0s', '0.0h', '-1', '-1s', 'abc', 'NaN', 'Infinity', '1e20', '1e20h', '60'], time],
  ['session-ttl', ['1', '10 m', '10M', 's', '1h30m', '0x10s', '3651d', '99999999999999999h'], time],
  ['state-ttl', ['0', '-1', '-5m', 'abc', 'NaN', '3651d', '10years'], time],
  ['allow-origin', ['', 'example.org', 'https://', 'https://a/b', 'null', 'https://a,https://b'], 'expected SCHEME://'],
  ['allow-host', ['', 'https://a', 'a/b', 'a b', 'a:b', 'a:123456', '::1'], 'expected HOST[:PORT] or *'],
  ['log-level', ['', 'loud', 'INFO'], 'expected debug, info, warning, error'],
  ['log-format', ['', 'xml'], 'expected pretty, json'],
];

function messageOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error));
    return error.message;
  }
  return 'nothing was refused';
}

describe('wrong arguments', () => {
  test('one line names what is wrong and what is allowed, and the exit status is 2', async () => {
    await eachOf(wrong, async ([args, message]) => {
      const { code, out, err } = await run(args);
      assert.equal(code, 2, `${args.join(' ')}: ${err}`);
      assert.match(err, message);
      assert.match(err, /^mcp-session: [^\n]+\n$/);
      assert.equal(out, '');
    });
  });

  test('one wrong value of every flag ends the process with 2', async () => {
    await eachOf(refused, async ([flag, [value = ''], expected]) => {
      const { code, out, err } = await run(['serve', `--${flag}=${value}`]);
      assert.equal(code, 2, `${flag} ${value}: ${err}`);
      assert.ok(err.startsWith(`mcp-session: --${flag} "${value}": ${expected}`), err);
      assert.match(err, /^[^\n]+\n$/);
      assert.equal(out, '');
    });
  });

  test('every wrong value is named beside what is allowed', () => {
    for (const [flag, values, expected] of refused) {
      for (const value of values) {
        for (const args of [[`--${flag}=${value}`], [`--${flag}`, value]]) {
          const message = messageOf(() => readServe(args));
          assert.ok(message.startsWith(`--${flag} "${value}": ${expected}`), `${args}: ${message}`);
        }
      }
    }
  });

  test('a flag without its value is named', () => {
    for (const [flag, { type }] of Object.entries(serveFlags)) {
      if (type === 'boolean') continue;
      for (const after of [[], ['--mode', 'stateful']]) {
        assert.equal(
          messageOf(() => readServe([`--${flag}`, ...after])),
          `--${flag}: expected a value after it`,
        );
      }
    }
  });

  test('a text that is too long is refused before anything is opened', () => {
    const expected = 'expected at most 1024 bytes of well-formed text';
    assert.equal(
      messageOf(() => readServe(['--namespace', tooLong])),
      `--namespace: ${expected}`,
    );
    assert.equal(
      messageOf(() => readServe(['--namespace', '\ud800'])),
      `--namespace: ${expected}`,
    );
    assert.equal(
      messageOf(() => readSessions(['terminate', 'x', '--reason', tooLong])),
      `--reason: ${expected}`,
    );
  });
});

describe('right arguments', () => {
  test('without flags the defaults hold, which are those of the library', () => {
    const asked = readServe([]);
    // Only the library sets these two.
    const { keepAlive, retry, logLevel, logFormat, ...shared } = defaults;
    assert.equal(asked?.stdio, false);
    assert.equal(asked?.level, logLevel);
    assert.equal(asked?.format, logFormat);
    assert.deepEqual(asked?.options, { ...shared, allowOrigins: [], allowHosts: [] });
    for (const [name, value] of Object.entries(libraryDefaults)) {
      assert.equal(Object.entries(defaults).find(([own]) => own === name)?.[1], value, name);
    }
  });

  test('every flag arrives', () => {
    const asked = readServe(
      'app.ts --bucket memory: --host ::1 --port 0 --path /a/b --mode stateless --session-ttl 400d --state-ttl 500ms'
        .split(' ')
        .concat(
          '--allow-origin https://a.example --allow-origin * --allow-host a.example:80 --allow-host [::1]'.split(' '),
        )
        .concat(['--namespace', 'a/b ü', '--log-level', 'debug', '--log-format', 'json']),
    );
    assert.deepEqual(asked, {
      app: 'app.ts',
      stdio: false,
      level: 'debug',
      format: 'json',
      options: {
        bucket: 'memory:',
        host: '::1',
        port: 0,
        path: '/a/b',
        mode: 'stateless',
        sessionTtl: 400 * 86_400_000,
        stateTtl: 500,
        allowOrigins: ['https://a.example', '*'],
        allowHosts: ['a.example:80', '[::1]'],
        namespace: 'a/b ü',
      },
    });
  });

  test('--stdio goes with every flag that does not speak of a port', () => {
    const flags = '--bucket memory: --mode stateful --session-ttl 1d --state-ttl 1m --namespace a --log-level error';
    const asked = readServe(['--stdio', 'app.ts', ...flags.split(' ')]);
    assert.equal(asked?.stdio, true);
    assert.equal(asked.app, 'app.ts');
    assert.equal(asked.options.mode, 'stateful');
  });

  test('an id that begins with dashes is an id', () => {
    const id = '-AbCdEfGhIjKlMnOpQrStUvW';
    const all = [
      ['show', id],
      ['show', id, '--json'],
      ['--json', 'show', id],
      ['show', '--', id],
      ['show', `-${id}`],
    ];
    for (const args of all) assert.match(readSessions(args)?.id ?? '', /^--?AbCdEfGhIjKlMnOpQrStUvW$/, args.join(' '));
    assert.equal(readSessions(['terminate', id, '--reason', '-1'])?.reason, '-1');
  });

  test('the version is that of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    assert.deepEqual(await run(['--version']), { code: 0, out: `${version}\n`, err: '' });
  });

  test('help names every command, and every flag with its default', async () => {
    const main = await run(['--help']);
    assert.equal(main.code, 0);
    for (const word of ['serve [APP]', 'list|show ID|terminate ID|delete ID', '--version', '--help']) {
      assert.ok(main.out.includes(word), word);
    }
    const helps: [string[], ParseArgsOptionsConfig][] = [
      [['serve', '--help'], serveFlags],
      [['sessions', '--help'], sessionsFlags],
      [['sessions', 'show', '--help'], sessionsFlags],
    ];
    for (const [args, flags] of helps) {
      const { code, out, err } = await run(args);
      assert.equal(code, 0);
      assert.equal(err, '');
      assert.ok(out.split('\n').every((line) => line.length <= 120));
      for (const [flag, { default: fallback }] of Object.entries(flags)) {
        const entry = new RegExp(`^ +--${flag} [^]*?(?=\n +--|\n\n)`, 'm').exec(`${out}\n`)?.[0];
        assert.ok(entry, `${args.join(' ')} lacks --${flag}`);
        const said = fallback === false ? 'off' : fallback || 'none';
        if (flag !== 'help') assert.ok(entry.includes(`(${said})`), entry);
      }
    }
  });
});
