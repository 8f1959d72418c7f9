import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import type { Bucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { elicit } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { type Session, SessionError } from '../../host/session.ts';
import { AskingModel, askTime, type ModelledCall } from '../support/asking-model.ts';
import { mortal } from '../support/buckets.ts';
import { forgetTimers } from '../support/timers.ts';
import { everything, Host, nobody, type Pushed, type TestCall, textOf } from '../support/call.ts';

const silence = 7_200_000;
const folder = mkdtempSync(join(tmpdir(), 'mcp-session-model-'));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

/** One bucket as several processes have it. */
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

const process = fc.nat(1);
// Mostly the same, so that things meet.
const either = fc.constantFrom(0, 0, 0, 1);
const which = fc.nat(3);
const reply = fc.constantFrom('accept', 'decline', 'cancel', 'error', 'misfit');
const call = fc.record({ do: fc.constant('call'), on: process, session: either, x: either });
const answer = fc.record({ do: fc.constant('answer'), on: process, session: either, call: which, reply });
const restart = fc.record({ do: fc.constant('restart'), on: process });
const step = fc.oneof(
  { weight: 6, arbitrary: call },
  { weight: 6, arbitrary: answer },
  { weight: 4, arbitrary: restart },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel'), call: which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('silence') }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('terminate', 'delete'), on: process, session: either }) },
);

interface Step {
  readonly do: string;
  readonly on?: number;
  readonly session?: number;
  readonly x?: number;
  readonly call?: number;
  readonly reply?: string;
}

interface Made {
  readonly modelled: ModelledCall;
  readonly call: TestCall;
  id: string | undefined;
  result: string | undefined;
}

/** Two sessions on two processes, beside the model of them. */
class World {
  readonly #model = new AskingModel();
  readonly #clock = { time: 1_800_000_000_000 };
  readonly #open: () => Bucket;
  readonly #timers: TestContext['mock']['timers'];
  readonly #processes: { readonly host: Host; readonly die: () => void }[] = [];
  readonly #opened: Bucket[] = [];
  readonly #ids: string[] = [];
  readonly #made: Made[] = [];

  constructor(open: () => Bucket, timers: TestContext['mock']['timers']) {
    this.#open = open;
    this.#timers = timers;
  }

  async begin(): Promise<void> {
    for (const on of [0, 1]) {
      this.#start(on);
      this.#ids.push((await this.#host(on).begin()).id);
    }
  }

  async run(step: Step): Promise<void> {
    const { on = 0, session = 0, x = 0, reply = '' } = step;
    const made = this.#made[(step.call ?? 0) % Math.max(1, this.#made.length)];
    if (step.do === 'call') await this.#call(on, session, x);
    if (step.do === 'answer' && made !== undefined) await this.#answer(made, on, session, reply);
    if (step.do === 'cancel' && made !== undefined) this.#cancel(made);
    if (step.do === 'restart') this.#start(on);
    if (step.do === 'wait') this.#wait(askTime);
    if (step.do === 'silence') this.#wait(silence);
    if (step.do === 'terminate' || step.do === 'delete') await this.#end(step.do, on, session);
    await this.#rest();
    await this.#compare();
  }

  async close(): Promise<void> {
    for (const { host, die } of this.#processes) {
      die();
      host.dispatcher.close();
    }
    for (const bucket of this.#opened) await bucket.close();
  }

  #host(process: number): Host {
    const { host } = this.#processes[process] ?? {};
    assert.ok(host);
    return host;
  }

  async #session(on: number, session: number): Promise<Session | undefined> {
    const opened = await this.#host(on).sessions.open('session', nobody, this.#ids[session] ?? '');
    assert.equal(opened === undefined, this.#model.ended[session], 'a session is open until it has ended');
    return opened;
  }

  /** A process, in the place of one that dies. */
  #start(process: number): void {
    this.#processes[process]?.die();
    this.#model.die(process);
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('t', { input: z.object({ x: z.int() }) }, async (_, exchange) => {
      return (await exchange.ask('n', elicit('?', z.object({ n: z.int() })))).action;
    });
    const opened = this.#open();
    this.#opened.push(opened);
    const { bucket, die } = mortal(opened);
    this.#processes[process] = { host: new Host(registry, bucket, this.#clock), die };
  }

  async #call(on: number, of: number, x: number): Promise<void> {
    const session = await this.#session(on, of);
    if (session === undefined) return;
    const user = ({ id }: Pushed) => {
      made.id = id;
      return undefined;
    };
    const params = { name: 't', arguments: { x } };
    const call = this.#host(on).call('tools/call', params, { session, capabilities: everything, user });
    const made: Made = { modelled: this.#model.call(on, of, x), call, id: undefined, result: undefined };
    this.#made.push(made);
    void call.run().then((result) => {
      made.result = textOf(result);
    });
  }

  async #answer({ id = 'the-id-of-no-question', modelled }: Made, on: number, from: number, reply: string) {
    const session = await this.#session(on, from);
    if (session === undefined) return;
    const result =
      reply === 'misfit' ? { action: 'accept', content: { n: 'one' } } : { action: reply, content: { n: 1 } };
    const error = { code: -32603, message: 'no' };
    let heard = 'stored';
    try {
      await session.answer(id, reply === 'error' ? { error } : { result });
    } catch (refused) {
      if (!(refused instanceof SessionError)) throw refused;
      heard = refused.code;
    }
    assert.equal(heard, this.#model.answer(modelled, from, reply));
  }

  #cancel({ call, modelled }: Made): void {
    if (modelled.isAlive) call.cancel();
    this.#model.cancel(modelled);
  }

  #wait(milliseconds: number): void {
    this.#clock.time += milliseconds;
    this.#model.wait(milliseconds);
    if (milliseconds === silence) for (const session of [0, 1]) this.#model.end(session);
  }

  async #end(how: 'terminate' | 'delete', on: number, of: number): Promise<void> {
    const session = await this.#session(on, of);
    if (session === undefined) return;
    await session[how]();
    this.#model.end(of);
  }

  /** Nobody is woken: everything is found by looking, as often as it takes to take a call for dead. */
  async #rest(): Promise<void> {
    for (let looks = 0; looks < 5; looks++) {
      for (let turns = 0; turns < 4; turns++) await new Promise(setImmediate);
      this.#timers.tick(200);
    }
    for (let turns = 0; turns < 4; turns++) await new Promise(setImmediate);
  }

  async #compare(): Promise<void> {
    for (const { result, modelled } of this.#made) if (modelled.isAlive) assert.equal(result, modelled.outcome);
    for (const session of [0, 1]) {
      const questions = (await (await this.#session(0, session))?.questions()) ?? {};
      const stored = Object.entries(questions).filter(([, { until }]) => this.#clock.time < until);
      const asked = this.#model.asked(session);
      const expected = this.#made.filter(({ modelled }) => asked.includes(modelled));
      assert.deepEqual(
        stored.map(([id, { answer }]) => [id, answer !== undefined]).sort(),
        expected.map(({ id, modelled: { answer } }) => [id, answer !== undefined]).sort(),
      );
    }
  }
}

describe('whatever happens to questions on two processes, one thing after the other', () => {
  for (const [kind, share] of Object.entries(buckets)) {
    test(`over ${kind} each is answered once, found after a death, and ends with its call or its session`, async (t) => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps: readonly Step[]) => {
          forgetTimers(t.mock.timers);
          const world = new World(share(), t.mock.timers);
          await world.begin();
          for (const one of steps) await world.run(one);
          await world.close();
        }),
        { numRuns: kind === 'memory' ? 150 : 50 },
      );
    });
  }
});
