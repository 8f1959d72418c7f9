import assert from 'node:assert/strict';
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const { version, peerDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  version: string;
  peerDependencies: Record<string, string>;
};
// npm starts whatever `node` it finds first: this one.
const env = { ...process.env, PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter) };
let folder = '';

function run(command: string, args: readonly string[], cwd = folder): SpawnSyncReturns<string> {
  return spawnSync(command, args, { cwd, env, encoding: 'utf8', timeout: 180_000 });
}

function runModule(source: string): string {
  writeFileSync(join(folder, 'main.mjs'), source);
  const { status, stdout, stderr } = run(process.execPath, ['main.mjs']);
  assert.equal(status, 0, stderr);
  return stdout;
}

function install(what: string): void {
  const installed = run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', what]);
  assert.equal(installed.status, 0, installed.stderr);
}

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'mcp-session-package-'));
  const packed = run('npm', ['pack', '--json', '--pack-destination', folder], root);
  assert.equal(packed.status, 0, packed.stderr);
  writeFileSync(join(folder, 'package.json'), '{ "private": true }\n');
  install(`./mcp-session-${version}.tgz`);
});

after(() => rmSync(folder, { recursive: true, force: true }));

test('the library can be imported', () => {
  const names = JSON.parse(
    runModule(`
    import * as library from 'mcp-session';
    console.log(JSON.stringify(Object.keys(library)));
  `),
  ) as string[];
  for (const name of ['Registry', 'serve', 'createHandler']) assert.ok(names.includes(name), `${name} of ${names}`);
});

test("row 62 a session over a bucket of one's own takes ten lines", () => {
  const printed = runModule(`
    import { instantiate } from 'mcp-session/component';
    const entries = new Map();
    let version = 0;
    const write = (key, value) => (entries.set(key, { value, version: String(++version) }), String(version));
    const bucket = {
      get: (key) => entries.get(key),
      set: (key, value) => void write(key, value),
      delete: (key) => void entries.delete(key),
      exists: (key) => entries.has(key),
      list: () => ({ keys: [...entries.keys()], cursor: undefined }),
      swap: (key, expected, value) => (entries.get(key)?.version === expected ? write(key, value) : undefined),
    };
    const component = await instantiate();
    const { Session } = component.sessions;
    const session = Session.initialize(component.bucket(bucket));
    session.set('greeting', new TextEncoder().encode('hello'));
    const again = Session.open(component.bucket(bucket), session.id());
    console.log(new TextDecoder().decode(again.get('greeting')));
  `);
  assert.equal(printed, 'hello\n');
});

test('the transitions can be used on their own', () => {
  const printed = runModule(`
    import { loadTransitions } from 'mcp-session/transitions';
    const transitions = await loadTransitions();
    try { transitions.examine('no record'); } catch (error) { console.log(error.name, error.tag); }
  `);
  assert.equal(printed, 'Refusal unreadable\n');
});

test('row 88 the bucket contract can be run', () => {
  const printed = runModule(`
    import * as contract from 'mcp-session/bucket-contract';
    console.log(Object.values(contract).some((cases) => Array.isArray(cases) && cases.length > 10));
  `);
  assert.equal(printed, 'true\n');
});

test('the components and the WIT are files of the package', () => {
  const printed = runModule(`
    import { readFileSync } from 'node:fs';
    for (const name of ['session.wasm', 'transitions.wasm', 'wit/sessions.wit', 'wit/deps/io/package.wit']) {
      console.log(readFileSync(new URL(import.meta.resolve('mcp-session/' + name))).subarray(0, 4).toString('latin1'));
    }
  `);
  assert.equal(printed, '\0asm\n\0asm\npack\n// S\n');
});

test('types are found by a strict compiler', () => {
  writeFileSync(
    join(folder, 'main.mts'),
    `import { instantiate, instantiateAsync, Pool, type Session } from 'mcp-session/component';
     import { loadTransitions } from 'mcp-session/transitions';
     const session: Session = (await instantiate()).sessions.Session.initialize(null as never);
     const value: Uint8Array | undefined = session.get('k');
     const key: string = (await loadTransitions()).examine('').values;
     // @ts-expect-error a key is text
     session.get(1);
     const { sessions, suspendingImports } = await instantiateAsync();
     const later: Promise<Uint8Array | undefined> = (await sessions.Session.initialize(null as never)).get('k');
     const guests = new Pool({ make: (givenUp) => ({ imports: suspendingImports(givenUp) }) });
     export { value, key, later, guests };\n`,
  );
  const tsc = join(root, 'node_modules', '.bin', 'tsc');
  const flags = [
    '--strict',
    '--noEmit',
    '--module',
    'nodenext',
    '--target',
    'esnext',
    '--lib',
    'esnext',
    '--types',
    '',
  ];
  const { status, stdout } = run(tsc, [...flags, 'main.mts']);
  assert.equal(status, 0, stdout);
});

test('the client needs the official client beside it, which nothing else does', () => {
  assert.ok(!existsSync(join(folder, 'node_modules', '@modelcontextprotocol', 'client')));
  install(`@modelcontextprotocol/client@${peerDependencies['@modelcontextprotocol/client']}`);
  const printed = runModule(`
    import { Registry, serve } from 'mcp-session';
    import { connect } from 'mcp-session/client';
    const registry = new Registry({ name: 'greeter', version: '1.0.0' });
    registry.tool('greet', {}, (_, { revision }) => 'hello on ' + revision);
    const server = await serve(registry, { bucket: 'memory:', port: 0 });
    for (const revision of ['2025-06-18', '2026-07-28']) {
      const client = await connect(server.url, { name: 'guest', version: '1.0.0', revision });
      console.log((await client.callTool({ name: 'greet' })).content[0].text);
      await client.close();
    }
    await server.close();
  `);
  assert.equal(printed, 'hello on 2025-06-18\nhello on 2026-07-28\n');
});

test('types of the library and the client are found by a strict compiler', () => {
  writeFileSync(
    join(folder, 'client.mts'),
    `import { Registry } from 'mcp-session';
     import { connect, type SessionClient } from 'mcp-session/client';
     const registry = new Registry({ name: 'notes', version: '1.0.0' });
     const clock = registry.provide('clock', { open: async () => ({ now: () => 5 }) });
     registry.tool('now', {}, async (_, exchange) => {
       const time: number = (await exchange.resolve(clock)).now();
       // @ts-expect-error a clock has no such member
       (await exchange.resolve(clock)).later;
       return String(time);
     });
     const who = { name: 'guest', version: '1.0.0' };
     const answer = { elicit: () => ({ action: 'accept' as const, content: { n: 1 } }) };
     export const client: SessionClient = await connect('http://localhost', { ...who, answer, revision: '2026-07-28' });
     // @ts-expect-error a revision is a date
     await connect('http://localhost', { ...who, revision: 'newest' });
     // @ts-expect-error a client says who it is
     await connect('http://localhost', {});\n`,
  );
  const tsc = join(root, 'node_modules', '.bin', 'tsc');
  const types = ['--types', 'node', '--typeRoots', join(root, 'node_modules', '@types')];
  const flags = ['--strict', '--noEmit', '--skipLibCheck', '--module', 'nodenext', '--target', 'esnext', ...types];
  const { status, stdout } = run(tsc, [...flags, 'client.mts']);
  assert.equal(status, 0, stdout);
});

test('npx starts the command', () => {
  const { status, stdout, stderr } = run('npx', ['mcp-session', '--version']);
  assert.equal(status, 0, stderr);
  assert.match(stdout, new RegExp(version.replaceAll('.', '\\.')));
});

/** How a Node that is too old starts, or how this one starts while it says that it is. */
function oldNode(): readonly [command: string, ...args: string[]] {
  for (const place of (process.env['PATH'] ?? '').split(delimiter)) {
    const node = join(place, 'node');
    if (place.includes('node_modules') || !existsSync(node)) continue;
    const said = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout;
    if (Number(/^v(\d+)/.exec(said)?.[1]) < 24) return [node];
  }
  const pretend = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })";
  return [process.execPath, '--import', `data:text/javascript,${encodeURIComponent(pretend)}`];
}

test('a Node that is too old is told so in one line', () => {
  const [command, ...args] = oldNode();
  const bin = join(folder, 'node_modules', 'mcp-session', 'host', 'bin.mjs');
  const { status, stdout, stderr } = run(command, [...args, bin, '--version']);
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /^mcp-session: [^\n]*Node 20[^\n]*24\.21[^\n]*\n$/);
});

test('a Node that is too old starts a newer one that is installed beside it', () => {
  const [command, ...args] = oldNode();
  const { status, stdout, stderr } = run(command, [...args, join(root, 'host', 'bin.mjs'), '--version']);
  assert.equal(status, 0, stderr);
  assert.match(stdout, new RegExp(version.replaceAll('.', '\\.')));
});
