#!/usr/bin/env node
// Plain JavaScript that Node 12 reads too, without `node:` imports and top-level await: it has to tell the users of an old
// Node what is wrong.
// biome-ignore-all lint/style/useNodejsImportProtocol: Node 12 does not know the protocol from its first version on
import { spawn } from 'child_process';
import { existsSync, readFileSync } from 'fs';
import { createRequire } from 'module';
import { dirname, join } from 'path';
import { fileURLToPath, pathToFileURL } from 'url';

const here = dirname(fileURLToPath(import.meta.url));
const needed = /[\d.]+/.exec(JSON.parse(readFileSync(join(here, '..', 'package.json'), 'utf8')).engines.node)[0];

if (isEnough(process.versions.node)) start();
else startNewer();

function isEnough(version) {
  const [major, minor] = version.split('.').map(Number);
  const [leastMajor, leastMinor] = needed.split('.').map(Number);
  return major > leastMajor || (major === leastMajor && minor >= leastMinor);
}

function start() {
  // A checkout has the source, the package what was made of it.
  const source = join(here, 'main.ts');
  const main = existsSync(source) ? source : join(here, '..', 'dist', 'host', 'main.js');
  import(pathToFileURL(main).href).catch((error) => {
    const isBuilt = existsSync(join(here, '..', 'dist', 'transitions.wasm'));
    end(isBuilt ? `cannot start: ${String(error.message).split('\n')[0]}` : 'not built yet: run npm run build');
  });
}

function startNewer() {
  const newer = newerNode();
  if (newer === undefined) {
    const how = 'npx -p node@26 -p mcp-session mcp-session';
    end(`this is Node ${process.versions.node}, and ${needed} or newer is needed: ${how}`);
  }
  const child = spawn(newer, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => end(`cannot start ${newer}: ${error.message}`));
  child.on('exit', (status, signal) => {
    if (signal === null) process.exit(status);
    for (const name of signals) process.removeAllListeners(name);
    process.kill(process.pid, signal);
  });
}

/** The node that the npm package `node` brings, if it is installed beside this one and new enough. */
function newerNode() {
  try {
    const description = createRequire(import.meta.url).resolve('node/package.json');
    const found = join(dirname(description), 'bin', 'node');
    const { version } = JSON.parse(readFileSync(description, 'utf8'));
    return isEnough(version) && existsSync(found) ? found : undefined;
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

function end(text) {
  process.stderr.write(`mcp-session: ${text}\n`);
  process.exit(1);
}
