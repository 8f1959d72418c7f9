#!/usr/bin/env node
// Plain JavaScript that old versions of Node read too: it has to tell their users what is wrong.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const needed = [24, 21];
const here = dirname(fileURLToPath(import.meta.url));
const [major, minor] = process.versions.node.split('.').map(Number);

if (major > needed[0] || (major === needed[0] && minor >= needed[1])) {
  const source = join(here, 'main.ts');
  await import(pathToFileURL(existsSync(source) ? source : join(here, '..', 'dist', 'host', 'main.js')).href);
} else {
  const newer = newerNode();
  if (newer === undefined) {
    process.stderr.write(
      `mcp-session: this is Node ${process.versions.node}, and ${needed.join('.')} or newer is needed: ` +
        'npx -p node@26 -p mcp-session mcp-session\n',
    );
    process.exit(1);
  }
  const child = spawn(newer, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal));
  child.on('exit', (status) => process.exit(status === null ? 1 : status));
}

/** The node that the npm package `node` brings, if it is installed beside this one. */
function newerNode() {
  try {
    const found = join(dirname(createRequire(import.meta.url).resolve('node/package.json')), 'bin', 'node');
    return existsSync(found) ? found : undefined;
  } catch (error) {
    if (error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}
