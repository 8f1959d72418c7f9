import { mkdtemp, rm } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { measureCalls } from './calls.ts';
import { measureComponent } from './component.ts';
import { measureSizes } from './sizes.ts';
import { measureStart } from './start.ts';
import { measureStored } from './stored.ts';

const folder = await mkdtemp(join(tmpdir(), 'mcp-session-bench-'));

/** The parts, in the order in which they run. Those that are named on the command line run, or all. */
const parts: Readonly<Record<string, (seconds: number, sessions: number) => void | Promise<void>>> = {
  sizes: measureSizes,
  component: measureComponent,
  start: () => measureStart(folder),
  stored: (_seconds, sessions) => measureStored(folder, sessions),
  calls: (seconds) => measureCalls(seconds, folder),
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { seconds: { type: 'string', default: '4' }, sessions: { type: 'string', default: '100000' } },
});
const seconds = Number(values.seconds);
const sessions = Number(values.sessions);
const chosen = positionals.length > 0 ? positionals : Object.keys(parts);
try {
  if (!(seconds > 0)) throw new Error(`--seconds "${values.seconds}": expected a number above 0`);
  if (!(sessions >= 1000)) throw new Error(`--sessions "${values.sessions}": expected a number from 1000`);
  for (const name of chosen) {
    if (!Object.hasOwn(parts, name)) throw new Error(`no part "${name}": expected ${Object.keys(parts).join(', ')}`);
  }
  const load = loadavg().map((one) => one.toFixed(2));
  process.stdout.write(
    `Node ${process.version}, ${cpus()[0]?.model.trim()}, ${availableParallelism()} processors, load ${load.join(' ')}\n`,
  );
  for (const name of chosen) await parts[name]?.(seconds, sessions);
} finally {
  await rm(folder, { recursive: true });
}
