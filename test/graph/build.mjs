// Compiles the tool of the graph, composes it with session.wasm, and transpiles both results, into .cache/graph/.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { componentize } from '@bytecodealliance/componentize-js';
import { transpile } from '@bytecodealliance/jco';

const [programs, target] = process.argv.slice(2);
const sources = ['test/graph/wit/world.wit', 'test/graph/counter.js', 'test/graph/build.mjs', 'dist/session.wasm'];
sources.push('package-lock.json', 'test/support/python.ts', 'wit/sessions.wit', 'wit/elicitation.wit');
const hash = createHash('sha256');
for (const source of sources) hash.update(readFileSync(source));
const stamp = `${target}/${hash.digest('hex')}`;
if (!existsSync(stamp)) {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(`${target}/wit/deps/mcp-session`, { recursive: true });
  cpSync('test/graph/wit', `${target}/wit`, { recursive: true });
  cpSync('wit/deps', `${target}/wit/deps`, { recursive: true });
  for (const file of ['sessions', 'elicitation']) {
    cpSync(`wit/${file}.wit`, `${target}/wit/deps/mcp-session/${file}.wit`);
  }
  const { component } = await componentize({
    sourcePath: 'test/graph/counter.js',
    witPath: `${target}/wit`,
    worldName: 'counter',
    disableFeatures: ['random', 'stdio', 'clocks', 'http', 'fetch-event'],
  });
  writeFileSync(`${target}/counter.wasm`, component);
  const compose = ['compose', `${target}/counter.wasm`, '-d', 'dist/session.wasm', '-o', `${target}/graph.wasm`];
  execFileSync(`${programs}/wasm-tools`, compose, { stdio: ['ignore', 'ignore', 'inherit'] });
  for (const name of ['counter', 'graph']) {
    const options = { name, instantiation: 'sync', wasiShim: false };
    const { files } = await transpile(readFileSync(`${target}/${name}.wasm`), options);
    mkdirSync(`${target}/${name}`, { recursive: true });
    for (const [path, content] of Object.entries(files)) {
      if (!path.endsWith('.d.ts')) writeFileSync(`${target}/${name}/${path}`, content);
    }
  }
  writeFileSync(stamp, '');
}
