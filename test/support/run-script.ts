import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Runs module source in a process of its own, at the package root. */
export function runScript(
  source: string,
  flags: readonly string[] = [],
): { status: number | null; stdout: string; stderr: string } {
  const run = spawnSync(process.execPath, [...flags, '--input-type=module', '--eval', source], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    encoding: 'utf8',
    timeout: 120_000,
  });
  return { status: run.status, stdout: run.stdout, stderr: run.stderr };
}
