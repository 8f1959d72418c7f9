// Compiles the tool that waits, and transpiles it so that it is suspended while it does, into the folder that is named.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { componentize } from '@bytecodealliance/componentize-js';
import { transpile } from '@bytecodealliance/jco';

const [target] = process.argv.slice(2);
const here = 'test/guests';
const sources = [`${here}/wit/world.wit`, `${here}/asker.js`, `${here}/build.mjs`, 'package-lock.json'];
const hash = createHash('sha256');
for (const source of [...sources, 'wit/sessions.wit', 'wit/elicitation.wit']) hash.update(readFileSync(source));
const stamp = `${target}/${hash.digest('hex')}`;

/** What the guest may be suspended in: each import that answers later. */
const asyncImports = [
  ...['initialize', 'initialize-in', 'open', 'open-in', 'close', 'delete'].map((name) => `[static]session.${name}`),
  ...['get', 'set', 'remove', 'swap', 'keys', 'elicit', 'terminate', 'is-terminated'].map(
    (name) => `[method]session.${name}`,
  ),
  ...['subscribe', 'elicit-result'].map((name) => `[method]future-elicit-result.${name}`),
].map((name) => `mcp:session/sessions@0.1.0#${name}`);
asyncImports.push('wasi:io/poll@0.2.12#poll', 'wasi:io/poll@0.2.12#[method]pollable.block');

if (!existsSync(stamp)) {
  rmSync(target, { recursive: true, force: true });
  mkdirSync(`${target}/wit/deps/mcp-session`, { recursive: true });
  cpSync(`${here}/wit`, `${target}/wit`, { recursive: true });
  cpSync('wit/deps', `${target}/wit/deps`, { recursive: true });
  for (const file of ['sessions', 'elicitation']) {
    cpSync(`wit/${file}.wit`, `${target}/wit/deps/mcp-session/${file}.wit`);
  }
  // The engine inside the component drops a stream only if the WIT names the very release that it was made with.
  for (const entry of readdirSync(`${target}/wit`, { recursive: true, withFileTypes: true })) {
    const path = `${entry.parentPath}/${entry.name}`;
    if (entry.isFile()) writeFileSync(path, readFileSync(path, 'utf8').replace(/@0\.2\.10/g, '@0.2.12'));
  }
  const { component } = await componentize({
    sourcePath: `${here}/asker.js`,
    witPath: `${target}/wit`,
    worldName: 'asker',
    disableFeatures: ['random', 'stdio', 'clocks', 'http', 'fetch-event'],
  });
  const { files } = await transpile(component, {
    name: 'asker',
    instantiation: 'sync',
    wasiShim: false,
    asyncMode: 'jspi',
    asyncImports,
    asyncExports: ['ask', 'count'],
  });
  mkdirSync(target, { recursive: true });
  for (const [path, content] of Object.entries(files)) {
    if (!path.endsWith('.d.ts')) writeFileSync(`${target}/${path}`, content);
  }
  writeFileSync(stamp, '');
}
