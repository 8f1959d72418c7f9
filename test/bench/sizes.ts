import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { table } from './print.ts';

const budgets = [
  { name: 'session.wasm', raw: '13 MB', gzip: '4.3 MiB' },
  { name: 'transitions.wasm', raw: '2.5 MB', gzip: '1 MB' },
] as const;

export function measureSizes(): void {
  const rows = budgets.map(({ name, raw, gzip }) => {
    const bytes = readFileSync(new URL(`../../dist/${name}`, import.meta.url));
    const packed = gzipSync(bytes, { level: 9 }).length;
    const megabytes = (size: number) => `${(size / 1e6).toFixed(2)} MB`;
    return [name, megabytes(bytes.length), raw, `${megabytes(packed)}, ${(packed / 2 ** 20).toFixed(2)} MiB`, gzip];
  });
  table('sizes', ['file', 'raw', 'under', 'gzip -9', 'under'], rows);
}
