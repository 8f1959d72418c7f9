import { type AnyBucket, BucketError } from './bucket.ts';
import { MemoryBucket } from './memory.ts';
import { SqliteBucket } from './sqlite.ts';

/** The kinds of bucket, by the scheme of their URL. */
const openers: Readonly<Record<string, (rest: string) => AnyBucket>> = {
  memory: (rest) => {
    if (rest !== '') throw new BucketError('invalid', 'bucket: expected nothing after "memory:"');
    return new MemoryBucket();
  },
  sqlite: openSqlite,
};

const forms = 'memory: or sqlite:PATH[?sync=full|normal][&busy=MILLISECONDS]';

/** Opens the bucket that a URL names: `memory:`, or `sqlite:PATH` with a path relative or absolute, percent-decoded. */
export function openBucket(url: string): AnyBucket {
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(url) ?? [];
  const open = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined;
  if (open === undefined) throw new BucketError('invalid', `bucket: expected ${forms}`);
  return open(rest);
}

function openSqlite(rest: string): SqliteBucket {
  const [encoded = '', query = ''] = rest.split(/\?(.*)/s, 2);
  let path: string;
  try {
    path = decodeURIComponent(encoded);
  } catch (error) {
    throw new BucketError('invalid', 'bucket: the path after "sqlite:" is not percent-encoded', { cause: error });
  }
  if (path === '' || path === ':memory:') {
    throw new BucketError('invalid', 'bucket: expected the path of a file after "sqlite:"');
  }
  let sync: 'full' | 'normal' = 'full';
  let busy = 5000;
  for (const [name, value] of new URLSearchParams(query)) {
    if (name === 'sync') {
      if (value !== 'full' && value !== 'normal')
        throw new BucketError('invalid', 'bucket: sync: expected full or normal');
      sync = value;
    } else if (name === 'busy') {
      if (!/^\d{1,7}$/.test(value)) throw new BucketError('invalid', 'bucket: busy: expected a number of milliseconds');
      busy = Number(value);
    } else {
      throw new BucketError('invalid', `bucket: unknown parameter "${name}", expected sync or busy`);
    }
  }
  return new SqliteBucket(path, { sync, busy });
}
