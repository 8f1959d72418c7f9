import assert from 'node:assert/strict';
import type { AnyBucket, AsyncBucket } from '../../host/bucket/bucket.ts';
import type { Log, LogFields, LogLevel } from '../../host/log.ts';

const print = /^[0-9a-f]{16}$/;
const store = /^[a-z]{1,20}$/;
const words = /^[^\p{Cc}]*$/su;
const lines = /^[\s\S]*$/;
const reason = /^(missing-or-expired|owner-mismatch)$/;

type Shapes = Readonly<Record<string, RegExp | 'milliseconds' | undefined>>;

const ofSession: Shapes = { store, ttl: 'milliseconds', session: print, key: print };

/** Every event of the host, with its level and the fields that it has: exactly these, none but `key` ever left out. */
const catalogue: Readonly<Record<string, { readonly level: LogLevel; readonly fields: Shapes }>> = {
  'session created': { level: 'info', fields: ofSession },
  'session rejected': { level: 'warning', fields: { ...ofSession, reason } },
  'session renewed': { level: 'debug', fields: ofSession },
  'session terminated': { level: 'info', fields: ofSession },
  'session deleted': { level: 'info', fields: ofSession },
  'session swept': { level: 'debug', fields: ofSession },
  'request state rejected': { level: 'warning', fields: { ...ofSession, reason } },
  'elicitation asked': { level: 'info', fields: ofSession },
  'elicitation answered': { level: 'info', fields: ofSession },
  'elicitation expired': { level: 'info', fields: ofSession },
  'conflict retried': { level: 'debug', fields: ofSession },
  'instance replaced': { level: 'error', fields: { reason: /^\w+$/ } },
  'renewing failed': { level: 'error', fields: { store, why: words } },
  'sweeping failed': { level: 'error', fields: { store, why: words } },
  'events not kept': { level: 'warning', fields: { store, why: words } },
  'stream not resumed': { level: 'warning', fields: { why: words } },
  'health check failed': { level: 'warning', fields: { error: words } },
  'request failed': { level: 'error', fields: { method: words, error: lines } },
  'dependency not closed': { level: 'error', fields: { dependency: words, error: lines } },
  'serving stdin and stdout': { level: 'info', fields: {} },
  stopping: { level: 'info', fields: { signal: /^SIG[A-Z]+$/ } },
  'process warning': { level: 'warning', fields: { name: words, message: words } },
};

export interface Event {
  readonly level: LogLevel;
  readonly event: string;
  readonly fields: LogFields | undefined;
}

/** Hears a log, remembers what must not be in it, and finds both what is there and what an event lacks. */
export class Audit {
  readonly events: Event[] = [];
  readonly #secrets = new Set<string>();
  readonly #words = new Set<string>();

  readonly log: Log = (level, event, fields) => {
    this.events.push({ level, event, fields });
  };

  /** Hears the lines of a process that logs in JSON. */
  hear(lines: readonly Record<string, unknown>[]): void {
    for (const { time, level, event, ...fields } of lines) {
      assert.ok(!Number.isNaN(Date.parse(String(time))));
      this.log(level as LogLevel, String(event), fields as LogFields);
    }
  }

  /** What must never be in the log. */
  keepSecret(...secrets: readonly string[]): void {
    for (const secret of secrets) this.#secrets.add(secret);
  }

  /** The bucket, with the ids and namespaces in every key that is used kept secret. */
  watching(bucket: AnyBucket): AsyncBucket | AnyBucket {
    const noting = <A extends unknown[], R>(run: (key: string, ...more: A) => R) => {
      return (key: string, ...more: A): R => {
        this.#note(key);
        return run(key, ...more);
      };
    };
    const { kind } = bucket;
    return {
      kind,
      get: noting((key) => bucket.get(key)),
      set: noting((key, value: Uint8Array) => bucket.set(key, value)),
      delete: noting((key) => bucket.delete(key)),
      exists: noting((key) => bucket.exists(key)),
      list: (cursor?: string) => bucket.list(cursor),
      swap: noting((key, expected: string | undefined, value: Uint8Array) => bucket.swap(key, expected, value)),
      settled: () => bucket.settled(),
      close: () => bucket.close(),
    } as AnyBucket;
  }

  /** Fails with everything that is wrong. */
  check(): void {
    const faults = this.events.flatMap((event) => [...faultsOf(event)]);
    const said = JSON.stringify(this.events);
    const shown = [...this.#secrets].filter((secret) => said.includes(secret));
    for (const [word] of said.matchAll(/[A-Za-z0-9_-]{6,}/g)) if (this.#words.has(word)) shown.push(word);
    for (const secret of shown) faults.push(`the log shows ${secret}`);
    assert.deepEqual([...new Set(faults)], []);
  }

  #note(key: string): void {
    for (const part of key.split('/').slice(2)) {
      // Shorter ones are part of ordinary words.
      if (part.length < 6) continue;
      if (/^[A-Za-z0-9_-]+$/.test(part)) this.#words.add(part);
      else this.keepSecret(part, decodeURIComponent(part));
    }
  }
}

function* faultsOf({ level, event, fields = {} }: Event): Generator<string> {
  const known = Object.hasOwn(catalogue, event) ? catalogue[event] : undefined;
  if (known === undefined) return yield `"${event}" is not in the catalogue of events`;
  if (level !== known.level) yield `"${event}" is ${known.level}, not ${level}`;
  for (const name of Object.keys(fields)) if (!Object.hasOwn(known.fields, name)) yield `"${event}" has no "${name}"`;
  for (const [name, shape] of Object.entries(known.fields)) {
    const value = fields[name];
    // An id of a shape that is never made has no key.
    if (value === undefined && name === 'key' && level === 'warning') continue;
    const fits = shape === 'milliseconds' ? typeof value === 'number' && value > 0 : shape?.test(String(value));
    if (!fits || value === undefined) yield `"${event}": "${name}" is ${JSON.stringify(value)}`;
  }
}
