import { randomBytes } from 'node:crypto';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { instantiate } from '../../host/component.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { median, table } from './print.ts';

interface Operation {
  readonly name: string;
  readonly build: string;
  readonly budget: string;
  readonly run: () => void;
}

const names = ['transitions.wasm', 'session.wasm'] as const;

/** What one call into the component takes, seen from the host, in batches that take turns. */
export async function measureComponent(seconds: number): Promise<void> {
  const operations: Operation[] = [];
  for (const build of names) {
    operations.push(...(await transitionsOf(build)));
  }
  operations.push(...(await sessionsOf()));
  const samples = operations.map(() => [] as number[]);
  const warm = performance.now() + seconds * 500;
  const until = warm + seconds * 1000;
  do {
    const counts = performance.now() >= warm;
    for (const [index, { run }] of operations.entries()) {
      for (let n = 0; n < 100; n++) {
        const start = performance.now();
        run();
        const took = (performance.now() - start) * 1000;
        if (counts) samples[index]?.push(took);
      }
    }
  } while (performance.now() < until || samples[0]?.length === 0);
  const rows = operations.map(({ name, build, budget }, index) => {
    const all = samples[index] ?? [];
    const late = all.toSorted((a, b) => a - b)[Math.floor(all.length * 0.9)] ?? 0;
    return [name, build, median(all).toFixed(1), late.toFixed(1), budget];
  });
  table('component, us per operation', ['operation', 'build', 'median', 'p90', 'at most'], rows);
}

async function transitionsOf(build: (typeof names)[number]): Promise<Operation[]> {
  const transitions = await loadTransitions({ build: build === 'session.wasm' ? 'starlingmonkey' : 'quickjs' });
  const now = 1_800_000_000_000;
  const beginning = { kind: 'session', namespace: '', ttl: 3_600_000, attributes: [], binding: '' } as const;
  const begin = { ...beginning, attributes: [['revision', '2025-11-25']] as [string, string][] };
  const entropy = randomBytes(24);
  const made = transitions.create(begin, now, entropy);
  const apply = (content: string, text: string) => {
    const change = { tag: 'set', val: ['value', { tag: 'text', val: text }] } as const;
    return transitions.apply(made.key, content, now, now, undefined, [{ ...change, val: [...change.val] }], 'n');
  };
  // Filled up to a record of 200 bytes.
  const bare = apply(made.content, '').content.length;
  const text = 'x'.repeat(Math.max(1, 200 - bare));
  const { content } = apply(made.content, text);
  const other = 'y'.repeat(text.length);
  const size = `${Buffer.byteLength(content)} B`;
  return [
    { name: 'transitions.create', build, budget: '20', run: () => void transitions.create(begin, now, entropy) },
    {
      name: `transitions.inspect, ${size}`,
      build,
      budget: '20',
      run: () => void transitions.inspect(content, now, now, undefined),
    },
    { name: `transitions.apply set, ${size}`, build, budget: '20', run: () => void apply(content, other) },
  ];
}

async function sessionsOf(): Promise<Operation[]> {
  const component = await instantiate();
  const store = new MemoryBucket();
  const { Session } = component.sessions;
  // The declarations name the resource of the WIT; ours stands for it.
  type Given = Parameters<typeof Session.open>[0];
  const bucket = () => component.bucket(store) as unknown as Given;
  const session = Session.initialize(bucket());
  const id = session.id();
  const value = Buffer.alloc(100, 'v');
  session.set('value', value);
  const build = 'session.wasm';
  return [
    { name: 'session.get, 100 B', build, budget: '40', run: () => void session.get('value') },
    { name: 'session.set, 100 B', build, budget: '40', run: () => session.set('value', value) },
    {
      name: 'open + get + close, 100 B',
      build,
      budget: '',
      run: () => {
        const opened = Session.open(bucket(), id);
        opened.get('value');
        Session.close(opened);
      },
    },
  ];
}
