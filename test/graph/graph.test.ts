import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { instantiate } from '../../host/component.ts';
import { pythonPrograms } from '../support/python.ts';

// The language's library lacks it, and that of browsers brings too much else.
declare const WebAssembly: { Module: new (bytes: Uint8Array) => object };

const target = resolve('.cache/graph');
const run = promisify(execFile);
await run(process.execPath, ['test/graph/build.mjs', await pythonPrograms(), target]);

interface Tool {
  bump(bucket: string, id: string): number;
}

/** Instantiates a transpiled component over imports named without their versions. */
async function start(name: string, imports: Readonly<Record<string, object>>): Promise<Tool> {
  const glue = await import(pathToFileURL(`${target}/${name}/${name}.js`).href);
  const core = (path: string) => new WebAssembly.Module(readFileSync(`${target}/${name}/${path}`));
  // Whatever version a component asks for, it is the one interface that this host has.
  const named = new Proxy<Record<string, object>>({}, { get: (_, key) => imports[String(key).replace(/@.*/, '')] });
  return glue.instantiate(core, named);
}

const component = () => {
  const bucket = new MemoryBucket();
  return { bucket, made: instantiate({ buckets: { sessions: bucket } }) };
};

async function linked() {
  const { bucket, made } = component();
  const { imports, sessions, bucket: resource } = await made;
  const tool = await start('counter', { ...imports, 'mcp:session/sessions': sessions });
  return { tool, session: sessions.Session.initialize(resource(bucket)) };
}

async function composed() {
  const { bucket, made } = component();
  const { imports, sessions, bucket: resource } = await made;
  return { tool: await start('graph', imports), session: sessions.Session.initialize(resource(bucket)) };
}

const isNoSuchSession = (error: unknown) => (error as { payload?: unknown }).payload === 'no-such-session';

for (const [name, make] of Object.entries({ 'linked in Node': linked, 'composed into one binary': composed })) {
  describe(`a tool component, ${name}`, () => {
    test('counts exactly in a session that the host made', async () => {
      const { tool, session } = await make();
      const id = session.id();
      for (let n = 1; n <= 200; n++) assert.equal(tool.bump('sessions', id), n);
      assert.equal(Buffer.from(session.get('n') ?? '').toString(), '200');
      session.set('n', Buffer.from('7'));
      assert.equal(tool.bump('sessions', id), 8);
    });

    test('hears the declared errors', async () => {
      const { tool, session } = await make();
      assert.throws(() => tool.bump('sessions', 'unknown'), isNoSuchSession);
      const noStore = (error: unknown) => (error as { payload?: unknown }).payload === 'no-such-store';
      assert.throws(() => tool.bump('other', session.id()), noStore);
      const isUnexpected = (error: unknown) => (error as { payload?: unknown }).payload === 'unexpected';
      assert.equal(tool.bump('sessions', session.id()), 1);
      session.terminate('over');
      assert.throws(() => tool.bump('sessions', session.id()), isUnexpected);
      assert.throws(() => tool.bump('sessions', session.id()), isUnexpected);
    });
  });
}
