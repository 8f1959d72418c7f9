import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { begin, Connection } from './client.ts';
import { median, table } from './print.ts';

const runs = 7;

/** From the start of the process to its first answer, with the files in the system's cache. */
export async function measureStart(folder: string): Promise<void> {
  const rows: string[][] = [];
  for (const bucket of ['memory:', `sqlite:${folder}/start.db`]) {
    await first(bucket);
    const times: number[] = [];
    for (let run = 0; run < runs; run++) times.push(await first(bucket));
    const name = bucket.startsWith('sqlite') ? 'sqlite:' : bucket;
    rows.push([name, median(times).toFixed(0), Math.min(...times).toFixed(0), Math.max(...times).toFixed(0), '500']);
  }
  table(`first answer after serve starts, ms, ${runs} runs`, ['bucket', 'median', 'least', 'most', 'at most'], rows);
}

async function first(bucket: string): Promise<number> {
  const main = fileURLToPath(new URL('../../host/main.ts', import.meta.url));
  const began = performance.now();
  const server = spawn(process.execPath, [main, 'serve', '--port', '0', '--bucket', bucket], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [line] = await once(server.stdout, 'data');
  const connection = await Connection.open(Number(new URL(String(line).replace('listening on ', '').trim()).port));
  await begin(connection);
  const took = performance.now() - began;
  connection.close();
  server.kill('SIGTERM');
  await once(server, 'exit');
  return took;
}
