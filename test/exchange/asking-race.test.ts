import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { elicit } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { SessionError } from '../../host/session.ts';
import { mortal, scheduled } from '../support/buckets.ts';
import { forgetTimers } from '../support/timers.ts';
import { everything, Host, nobody, type Pushed, type TestCall, textOf } from '../support/call.ts';

type Timers = TestContext['mock']['timers'];

const askTime = 120_000;
const answer = fc.record({ on: fc.nat(1), n: fc.nat(99), declines: fc.boolean() });

/** Equal calls, and everything that happens while they ask: who answers how often, who gives up, what dies or ends. */
const race = fc.record({
  calls: fc.array(fc.record({ on: fc.nat(1), answers: fc.array(answer, { maxLength: 3 }), cancels: fc.boolean() }), {
    minLength: 1,
    maxLength: 4,
  }),
  dies: fc.boolean(),
  ends: fc.constantFrom('not', 'not', 'terminate', 'delete'),
  /** How often time passes before what could happen has happened: a process may be slow. */
  delays: fc.nat(12),
});
type Plan = typeof race extends fc.Arbitrary<infer T> ? T : never;
type Answer = typeof answer extends fc.Arbitrary<infer T> ? T : never;

class Race {
  /** What was stored for each question, as the handler shows it. */
  readonly stored: string[][] = [];
  /** What may have been stored: whoever sent it died before it was acknowledged. */
  readonly sent: string[] = [];
  /** What the calls ended with; those of a process that died need not end. */
  readonly texts: string[] = [];
  readonly #plan: Plan;
  readonly #scheduler: fc.Scheduler;
  readonly #timers: Timers;
  readonly #clock = { time: 1_800_000_000_000 };
  readonly #processes: { readonly host: Host; readonly die: () => void }[];
  readonly #asides: Promise<unknown>[] = [];
  #id = '';

  constructor(plan: Plan, scheduler: fc.Scheduler, timers: Timers) {
    this.#plan = plan;
    this.#scheduler = scheduler;
    this.#timers = timers;
    const registry = new Registry({ name: 'test', version: '1' });
    registry.tool('t', {}, async (_, exchange) => {
      const { action, content } = await exchange.ask('n', elicit('?', z.object({ n: z.int() })));
      return `${action} ${content.n}`;
    });
    const shared = new MemoryBucket();
    this.#processes = [0, 1].map(() => {
      const { bucket, die } = mortal(scheduled(shared, scheduler));
      return { host: new Host(registry, bucket, this.#clock), die };
    });
  }

  async run(): Promise<void> {
    const { calls, dies, ends, delays } = this.#plan;
    await this.#drive(this.#begin());
    const surviving = calls.map((_, index) => this.#call(index)).filter((_, index) => !dies || calls[index]?.on === 1);
    if (ends !== 'not') this.#aside(1, async () => (await this.#session(1))?.[ends]());
    if (dies) this.#soon(() => this.#processes[0]?.die());
    for (let passed = 0; passed < delays; passed++) this.#soon(() => this.#timers.tick(200));
    // Who waits for ever gives up when the time is over.
    setTimeout(() => {
      this.#clock.time += askTime;
    }, 10_000);
    await this.#drive(Promise.all(surviving));
    await this.#drive(Promise.all(this.#asides));
  }

  async #begin(): Promise<void> {
    this.#id = (await this.#host(0).begin()).id;
  }

  #host(on: number): Host {
    const { host } = this.#processes[on] ?? {};
    assert.ok(host);
    return host;
  }

  #session(on: number) {
    return this.#host(on).sessions.open('session', nobody, this.#id);
  }

  async #call(index: number): Promise<void> {
    const { on = 0, answers = [], cancels = false } = this.#plan.calls[index] ?? {};
    const stored: string[] = [];
    this.stored.push(stored);
    const session = (await this.#session(on)) ?? null;
    if (session === null) return;
    const user = ({ id }: Pushed) => {
      for (const one of answers) this.#aside(one.on, () => this.#answer(id, one, stored));
      if (cancels) this.#soon(() => call.cancel());
      return undefined;
    };
    const options = { session, capabilities: everything, user };
    const call: TestCall = this.#host(on).call('tools/call', { name: 't' }, options);
    this.texts.push(textOf(await call.run()));
  }

  async #answer(id: string, { on, n, declines }: Answer, stored: string[]): Promise<void> {
    const session = await this.#session(on);
    if (session === undefined) return;
    const shown = declines ? 'decline undefined' : `accept ${n}`;
    if (this.#plan.dies && on === 0) this.sent.push(shown);
    await session.answer(id, { result: declines ? { action: 'decline' } : { action: 'accept', content: { n } } });
    stored.push(shown);
    this.#host(on).hub.wake(id);
  }

  #aside(on: number, run: () => Promise<unknown>): void {
    const refused = (error: unknown) => {
      if (!(error instanceof SessionError)) throw error;
    };
    const work = run().catch(refused);
    // What a process does that dies need not end.
    if (on === 1 || !this.#plan.dies) this.#asides.push(work);
  }

  #soon(run: () => void): void {
    this.#asides.push(this.#scheduler.schedule(Promise.resolve(), 'soon').then(run));
  }

  /** Lets the scheduler choose what happens next, and time pass when nothing else can happen, until `work` is done. */
  async #drive(work: Promise<unknown>): Promise<void> {
    let isDone = false;
    const done = () => {
      isDone = true;
    };
    void work.then(done, done);
    for (let steps = 0; !isDone; steps++) {
      assert.ok(steps < 20_000, 'nothing happens any more');
      await new Promise(setImmediate);
      if (this.#scheduler.count() > 0) await this.#scheduler.waitOne();
      else this.#timers.tick(200);
    }
    await work;
  }
}

describe('whatever happens to questions on two processes at once', () => {
  test('a question takes one answer, and each that it took is heard, and heard once', async (t) => {
    await fc.assert(
      fc.asyncProperty(race, fc.scheduler(), async (plan, scheduler) => {
        forgetTimers(t.mock.timers);
        const racing = new Race(plan, scheduler, t.mock.timers);
        await racing.run();
        for (const stored of racing.stored) assert.ok(stored.length <= 1, 'two answers to one question were taken');
        const unheard = racing.stored.flat();
        for (const text of racing.texts.filter((text) => /^(accept|decline)/.test(text))) {
          const at = unheard.indexOf(text);
          if (at !== -1) unheard.splice(at, 1);
          else assert.ok(racing.sent.includes(text), `"${text}" was heard, and never stored, or heard before`);
        }
        const { calls, dies, ends } = plan;
        if (!dies && ends === 'not' && calls.every(({ cancels }) => !cancels)) assert.deepEqual(unheard, []);
      }),
      { numRuns: 200 },
    );
  });
});
