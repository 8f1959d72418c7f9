import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import type { Bucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { RpcError } from '../../host/call.ts';
import { elicit } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import type { Json } from '../../host/session.ts';
import { everything, Host, modern, textOf } from '../support/call.ts';

const stateTime = 600_000;
const folder = mkdtempSync(join(tmpdir(), 'mcp-session-states-'));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

const buckets: Readonly<Record<string, () => () => Bucket>> = {
  memory: () => {
    const bucket = new MemoryBucket();
    return () => bucket;
  },
  sqlite: () => {
    const path = join(folder, `${++files}.db`);
    return () => new SqliteBucket(path, { sync: 'normal' });
  },
};

const responses: Readonly<Record<string, Json>> = {
  accept: { n: { action: 'accept', content: { n: 1 } } },
  decline: { n: { action: 'decline' } },
  misfit: { n: { action: 'accept', content: { n: 'one' } } },
  none: {},
  malformed: { n: 5 },
};

/** Mostly the right one. */
const same = fc.constantFrom(true, true, true, false);
const step = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('ask'), on: fc.nat(1), owner: fc.nat(1), x: fc.nat(1) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('retry'),
      state: fc.nat(9),
      response: fc.constantFrom(...Object.keys(responses)),
      sameOwner: same,
      sameCall: same,
      /** On which process each of the calls comes that come at once. */
      at: fc.array(fc.nat(1), { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('restart'), on: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('wait'), time: fc.constantFrom(1, stateTime - 1, stateTime) }) },
);

interface Step {
  readonly do: string;
  readonly on?: number;
  readonly owner?: number;
  readonly x?: number;
  readonly state?: number;
  readonly response?: string;
  readonly sameOwner?: boolean;
  readonly sameCall?: boolean;
  readonly at?: readonly number[];
  readonly time?: number;
}

/** A state as the model knows it. */
interface State {
  readonly id: string;
  readonly owner: number;
  readonly x: number;
  readonly until: number;
  isSpent: boolean;
}

/** Two processes over one bucket, and what their states must do. */
class World {
  readonly #clock = { time: 1_800_000_000_000 };
  readonly #open: () => Bucket;
  readonly #opened: Bucket[] = [];
  readonly #hosts: Host[] = [];
  readonly #states: State[] = [];
  #effects = 0;
  #expectedEffects = 0;

  constructor(open: () => Bucket) {
    this.#open = open;
    for (const on of [0, 1]) this.#start(on);
  }

  async run(step: Step): Promise<void> {
    const { on = 0, owner = 0, x = 0, time = 0 } = step;
    const state = this.#states[(step.state ?? 0) % Math.max(1, this.#states.length)];
    if (step.do === 'ask') this.#remember(await this.#call(on, owner, x), owner, x);
    if (step.do === 'retry' && state !== undefined) await this.#retry(step, state);
    if (step.do === 'restart') this.#start(on);
    if (step.do === 'wait') this.#clock.time += time;
    assert.equal(this.#effects, this.#expectedEffects);
  }

  async close(): Promise<void> {
    for (const bucket of this.#opened) await bucket.close();
  }

  #start(on: number): void {
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('t', { input: z.object({ x: z.int() }) }, async (_, exchange) => {
      const { action } = await exchange.ask('n', elicit('?', z.object({ n: z.int() })));
      if (action === 'accept') this.#effects++;
      return action;
    });
    const bucket = this.#open();
    this.#opened.push(bucket);
    this.#hosts[on] = new Host(registry, bucket, this.#clock);
  }

  #call(on: number, owner: number, x: number, more: { readonly [name: string]: Json } = {}) {
    const host = this.#hosts[on];
    assert.ok(host);
    const scope = { namespace: 'n', owner: `owner ${owner}` };
    return host.tool('t', { x }, { revision: modern, capabilities: everything, scope, more });
  }

  #remember(asked: { readonly [name: string]: Json }, owner: number, x: number): void {
    assert.equal(asked.resultType, 'input_required');
    const id = String(asked.requestState);
    assert.ok(this.#states.every((state) => state.id !== id));
    this.#states.push({ id, owner, x, until: this.#clock.time + stateTime, isSpent: false });
  }

  async #retry({ response = '', sameOwner, sameCall, at = [] }: Step, state: State): Promise<void> {
    const owner = sameOwner ? state.owner : 1 - state.owner;
    const x = sameCall ? state.x : 1 - state.x;
    const more = { requestState: state.id, inputResponses: responses[response] ?? null };
    const outcomes = await Promise.allSettled(at.map((on) => this.#call(on, owner, x, more)));
    const isRight = sameOwner && sameCall && !state.isSpent && this.#clock.time < state.until;
    const done = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') continue;
      assert.ok(outcome.reason instanceof RpcError);
      assert.equal(outcome.reason.code, -32602);
    }
    assert.equal(done.length, isRight && response !== 'malformed' ? 1 : 0);
    const [result] = done;
    if (result === undefined) return;
    state.isSpent = true;
    if (response === 'accept') this.#expectedEffects++;
    if (response === 'accept' || response === 'decline') assert.equal(textOf(result), response);
    else this.#remember(result, owner, x);
  }
}

describe('whatever is brought back to two processes', () => {
  for (const [kind, share] of Object.entries(buckets)) {
    test(`row 26 row 28 row 29 over ${kind} a state is redeemed once, in its time, by its own call and owner alone`, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 20 }), async (steps: readonly Step[]) => {
          const world = new World(share());
          for (const one of steps) await world.run(one);
          await world.close();
        }),
        { numRuns: kind === 'memory' ? 150 : 50 },
      );
    });
  }
});
