import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { componentWit } from '@bytecodealliance/jco';
import { faultsOf, membersOf, readWit } from './support/read-wit.ts';

const at = (path: string) => new URL(`../${path}`, import.meta.url);
const files = readdirSync(at('wit')).filter((name) => name.endsWith('.wit'));
const sessionsWit = readFileSync(at('wit/sessions.wit'), 'utf8');

for (const name of files) {
  test(`every item of ${name} has a comment, and a gate below it where there can be one`, () => {
    const items = readWit(readFileSync(at(`wit/${name}`), 'utf8'));
    assert.ok(items.length > 5);
    assert.deepEqual(items.flatMap(faultsOf), []);
  });
}

test('a missing comment, a missing gate and a gate above the comment are noticed', () => {
  const good = readWit(
    '/// A.\n@since(version = 0.1.0)\ninterface a {\n    /// B.\n    @since(version = 0.1.0)\n    b: func();\n}',
  );
  assert.equal(good.length, 2);
  assert.deepEqual(good.flatMap(faultsOf), []);
  for (const bad of [
    '@since(version = 0.1.0)\ninterface a {\n}',
    '/// A.\ninterface a {\n}',
    '@since(version = 0.1.0)\n/// A.\ninterface a {\n}',
    '/// A.\n@since(version = 0.1.0)\ninterface a {\n    /// @since(version = 0.1.0)\n    b: func();\n}',
    '/// A.\n@since(version = 0.1.0)\n\ninterface a {\n}',
    '/// A.\n@since(version = 0.1.0)\ninterface a {\n    /// B.\n    @since(version = 0.1.0)\n    enum b {\n        c,\n    }\n}',
  ]) {
    assert.notDeepEqual(readWit(bad).flatMap(faultsOf), [], bad);
  }
});

test('a function of the sessions interface with several parameters describes each', () => {
  const crowded = readWit(sessionsWit).filter(({ text }) => /func\([^)]*:[^)]*,[^)]*:/.test(text));
  assert.deepEqual(crowded, []);
  const parameters = readWit(sessionsWit).filter(({ within }) => within === 'parameters');
  assert.ok(parameters.length >= 10);
});

/** What a component that was compiled against the resource as first published links with. */
const published = [
  'id: func() -> string',
  'get: func(key: string) -> result<option<list<u8>>, session-error>',
  'set: func(key: string, value: list<u8>) -> result<_, session-error>',
  'elicit: func(client: borrow<output-stream>, elicitation: elicit-request) -> result<future-elicit-result, session-error>',
  'terminate: func(reason: option<string>) -> result<_, session-error>',
  'is-terminated: func() -> result<bool, session-error>',
  'initialize: static func(bucket: bucket) -> result<session, session-error>',
  'open: static func(bucket: bucket, id: string) -> result<session, session-error>',
  'close: static func(session: session) -> bucket',
  'delete: static func(session: session) -> result<bucket, tuple<bucket, session-error>>',
];
const added = ['remove', 'swap', 'keys', 'initialize-in', 'open-in'];

test('the session resource has every published member, with its very types, and those we added', () => {
  const members = membersOf(sessionsWit, 'session');
  for (const member of published) assert.ok(members.includes(member), `${member}\nis not among\n${members.join('\n')}`);
  const others = members.filter((member) => !published.includes(member)).map((member) => member.split(':')[0]);
  assert.deepEqual(others.sort(), added.sort());
  assert.deepEqual(membersOf(sessionsWit, 'future-elicit-result'), [
    'subscribe: func() -> pollable',
    'elicit-result: func() -> elicit-result',
  ]);
});

test('a session error has the published cases', () => {
  const cases = readWit(sessionsWit).filter(({ within }) => within === 'variant');
  const texts = cases.map(({ text }) => text);
  assert.deepEqual(texts, ['io(stream-error),', 'store(store-error),', 'no-such-session,', 'unexpected(string),']);
});

async function worldOf(path: string): Promise<{ imports: string[]; exports: string[] }> {
  const wit = await componentWit(readFileSync(at(path)));
  const named = (kind: string) =>
    Array.from(wit.matchAll(new RegExp(`^  ${kind} ([^ ;]+);`, 'gm')), ([, name]) => name ?? '');
  return { imports: named('import').sort(), exports: named('export').sort() };
}

test('session.wasm imports keyvalue, io, clocks and random, and exports both faces', async () => {
  const { imports, exports } = await worldOf('dist/session.wasm');
  // An interface of types alone: a host provides nothing for it.
  assert.deepEqual(imports, [
    'mcp:session/elicitation@0.1.0',
    'wasi:clocks/monotonic-clock@0.2.12',
    'wasi:clocks/wall-clock@0.2.12',
    'wasi:io/error@0.2.12',
    'wasi:io/poll@0.2.12',
    'wasi:io/streams@0.2.12',
    'wasi:keyvalue/atomics@0.2.0-draft2',
    'wasi:keyvalue/batch@0.2.0-draft2',
    'wasi:keyvalue/store@0.2.0-draft2',
    'wasi:random/random@0.2.12',
  ]);
  assert.deepEqual(exports, ['mcp:session/sessions@0.1.0', 'mcp:session/transitions@0.1.0']);
  const items = readWit(readFileSync(at('wit/elicitation.wit'), 'utf8'));
  assert.deepEqual(
    items.filter(({ text }) => /^resource |: (static )?func\(/.test(text)),
    [],
  );
});

test('transitions.wasm imports nothing', async () => {
  const { imports, exports } = await worldOf('dist/transitions.wasm');
  assert.deepEqual(imports, []);
  assert.deepEqual(exports, ['mcp:session/transitions@0.1.0']);
});

for (const [name, raw, packed] of [
  ['session', 13e6, 4.3 * 2 ** 20],
  ['transitions', 2.5e6, 1e6],
] as const) {
  test(`${name}.wasm is no larger than it may be`, () => {
    const bytes = readFileSync(at(`dist/${name}.wasm`));
    assert.ok(bytes.length < raw, `${bytes.length} bytes`);
    assert.ok(gzipSync(bytes).length < packed);
  });
}
