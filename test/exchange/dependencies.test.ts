import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import { RpcError } from '../../host/call.ts';
import type { Dependency } from '../../host/dependencies.ts';
import type { Exchange } from '../../host/exchange.ts';
import { elicit, NeedInput } from '../../host/questions.ts';
import { Registry } from '../../host/registry.ts';
import { everything, failureIn, Host, modern, textOf } from '../support/call.ts';

/** A registry that writes down what happens to what it provides. */
class Provided {
  readonly registry = new Registry({ name: 'test', version: '1' });
  readonly events: string[] = [];
  readonly logged: unknown[] = [];
  readonly host: Host;

  constructor() {
    this.host = new Host(this.registry, undefined, undefined, (level, event, fields) => {
      this.logged.push({ level, event, ...fields });
    });
  }

  provide<T>(name: string, open: (exchange: Exchange) => T | Promise<T>): Dependency<T> {
    return this.registry.provide(name, {
      open: (exchange) => {
        this.events.push(`open ${name}`);
        return open(exchange);
      },
      close: (_, error) => void this.events.push(`close ${name}${error === undefined ? '' : `: ${error.message}`}`),
    });
  }

  tool(handler: (exchange: Exchange) => unknown): void {
    this.registry.tool('t', {}, async (_, exchange) => String(await handler(exchange)));
  }
}

describe('a dependency', () => {
  test('row 54 is made at its first use, once for all uses of a run, and closed after it', async () => {
    const provided = new Provided();
    let made = 0;
    const counter = provided.provide('counter', async () => ({ n: ++made }));
    const unused = provided.provide('unused', () => assert.fail('nobody asked for it'));
    provided.tool(async (exchange) => {
      provided.events.push('begin');
      const [one, two] = await Promise.all([exchange.resolve(counter), exchange.resolve(counter)]);
      assert.equal(one, two);
      assert.equal(await exchange.resolve(counter), one);
      provided.events.push('end');
      return one.n;
    });
    assert.equal(textOf(await provided.host.tool('t')), '1');
    assert.deepEqual(provided.events, ['begin', 'open counter', 'end', 'close counter']);
    assert.equal(textOf(await provided.host.tool('t')), '2');
    assert.equal(unused.name, 'unused');
  });

  test('is typed, and nothing of it is shown to a client', async () => {
    const { registry, host } = new Provided();
    const clock = registry.provide('clock', { open: async () => ({ now: () => 5 }), close: (one) => one.now() });
    registry.tool('t', { input: z.object({ n: z.int() }) }, async ({ n }, exchange) => {
      const { now } = await exchange.resolve(clock);
      const time: number = now();
      // @ts-expect-error: a clock has no such member
      assert.equal((await exchange.resolve(clock)).later, undefined);
      return String(time + n);
    });
    assert.equal(textOf(await host.tool('t', { n: 1 })), '6');
    const listed = JSON.stringify(await host.request('tools/list', {}));
    assert.doesNotMatch(listed, /clock/);
    assert.deepEqual(Object.keys(JSON.parse(listed).tools[0].inputSchema.properties), ['n']);
  });

  test('row 54 sees what the handler threw, whatever becomes of it', async () => {
    const provided = new Provided();
    const { events, host } = provided;
    const transaction = provided.provide('transaction', () => ({}));
    let throws: unknown;
    provided.tool(async (exchange) => {
      await exchange.resolve(transaction);
      throw throws;
    });
    const closed = async (thrown: unknown, run: () => Promise<unknown>) => {
      throws = thrown;
      await run();
      const [, event] = events.splice(0);
      return event;
    };
    const call = async () => assert.ok(failureIn(await host.tool('t')));
    assert.equal(await closed(new Error('no paper'), call), 'close transaction: no paper');
    for (const odd of [undefined, 'text']) {
      assert.equal(await closed(odd, call), 'close transaction: the handler threw what is no error');
    }
    const refused = () => assert.rejects(host.tool('t'), { code: -32099 });
    assert.equal(await closed(new RpcError(-32099, 'mine'), refused), 'close transaction: mine');
    const asks = async () => {
      const options = { revision: modern, capabilities: everything };
      assert.equal((await host.tool('t', {}, options)).resultType, 'input_required');
    };
    const need = new NeedInput({ k: elicit('?') });
    assert.equal(await closed(need, asks), `close transaction: ${need.message}`);
  });

  test('is closed before the client is asked, and made anew for the run with the answer', async () => {
    const provided = new Provided();
    const { events, host } = provided;
    const connection = provided.provide('connection', () => ({}));
    provided.tool(async (exchange) => {
      await exchange.resolve(connection);
      if (!exchange.answered('k')) throw new NeedInput({ k: elicit('?') });
      return 'done';
    });
    const user = () => {
      events.push('asked');
      return { action: 'accept' };
    };
    const options = { session: await host.begin(), capabilities: everything, user };
    assert.equal(textOf(await host.tool('t', {}, options)), 'done');
    assert.deepEqual(
      events.map((event) => event.split(':')[0]),
      ['open connection', 'close connection', 'asked', 'open connection', 'close connection'],
    );
  });

  test('is closed when its call was cancelled and the handler has ended', async () => {
    const provided = new Provided();
    const opened = Promise.withResolvers<void>();
    const lock = provided.provide('lock', () => ({}));
    provided.tool(async (exchange) => {
      await exchange.resolve(lock);
      opened.resolve();
      await exchange.waitCancelled();
      exchange.signal.throwIfAborted();
    });
    const call = provided.host.call('tools/call', { name: 't' });
    const ended = call.run();
    await opened.promise;
    assert.deepEqual(provided.events, ['open lock']);
    call.cancel();
    await ended;
    assert.match(provided.events[1] ?? '', /^close lock: .*aborted/);
  });

  test('may use others; each is closed before those that it uses', async () => {
    const provided = new Provided();
    const pool = provided.provide('pool', async () => 'pool');
    const log = provided.provide('log', () => 'log');
    const store = provided.provide('store', async (exchange) => `store on ${await exchange.resolve(pool)}`);
    // It does not wait for what it uses.
    const cache = provided.provide('cache', (exchange) => ({ store: exchange.resolve(store) }));
    provided.tool(async (exchange) => {
      const { store: used } = await exchange.resolve(cache);
      await exchange.resolve(log);
      return used;
    });
    assert.equal(textOf(await provided.host.tool('t')), 'store on pool');
    const opened = ['cache', 'store', 'pool', 'log'].map((name) => `open ${name}`);
    assert.deepEqual(provided.events.slice(0, 4), opened);
    assert.deepEqual(
      provided.events.slice(4).sort(),
      [...opened].map((event) => event.replace('open', 'close')).sort(),
    );
    const closing = provided.events.slice(4);
    const [cached, stored, pooled] = ['cache', 'store', 'pool'].map((name) => closing.indexOf(`close ${name}`));
    assert.ok(Number(cached) < Number(stored) && Number(stored) < Number(pooled), closing.join());
  });

  test('that does not depend on another is closed in the reverse order of their opening', async () => {
    const provided = new Provided();
    const [a, b, c] = ['a', 'b', 'c'].map((name) => provided.provide(name, () => name));
    provided.tool(async (exchange) => {
      for (const one of [a, b, c]) await exchange.resolve(one as Dependency<string>);
    });
    await provided.host.tool('t');
    assert.deepEqual(provided.events.slice(3), ['close c', 'close b', 'close a']);
  });

  test('that needs itself, be it over others or from two sides at once, is an error that says so', async () => {
    const provided = new Provided();
    const alone: Dependency<unknown> = provided.provide('alone', (exchange) => exchange.resolve(alone));
    const egg: Dependency<unknown> = provided.provide('egg', (exchange) => exchange.resolve(hen));
    const hen: Dependency<unknown> = provided.provide('hen', async (exchange) => exchange.resolve(nest));
    const nest: Dependency<unknown> = provided.provide('nest', async (exchange) => exchange.resolve(egg));
    let wanted: readonly Dependency<unknown>[] = [alone];
    provided.tool((exchange) => Promise.all(wanted.map((one) => exchange.resolve(one))));
    const failure = async () => failureIn(await provided.host.tool('t'));
    assert.equal(await failure(), 'the dependencies need each other: "alone" needs "alone"');
    wanted = [egg];
    assert.equal(await failure(), 'the dependencies need each other: "nest" needs "egg" needs "hen" needs "nest"');
    wanted = [egg, nest];
    assert.match((await failure()) ?? '', /^the dependencies need each other: /);
  });

  test('that cannot be made fails the uses of that run, and is tried again in the next', async () => {
    const provided = new Provided();
    let down = true;
    const database = provided.provide('database', async () => {
      if (down) throw new Error('the database is down');
      return 'rows';
    });
    const other = provided.provide('other', () => 'other');
    provided.tool(async (exchange) => {
      await exchange.resolve(other);
      await assert.rejects(exchange.resolve(database), /down/);
      return exchange.resolve(database);
    });
    assert.equal(failureIn(await provided.host.tool('t')), 'the database is down');
    assert.deepEqual(provided.events, ['open other', 'open database', 'close other: the database is down']);
    down = false;
    provided.registry.tool('u', {}, async (_, exchange) => exchange.resolve(database));
    assert.equal(textOf(await provided.host.tool('u')), 'rows');
  });

  test('that cannot be closed hides neither the result nor the other closings, and is logged without ids', async () => {
    const provided = new Provided();
    const { registry, host, events, logged } = provided;
    const first = provided.provide('first', () => 'first');
    const stuck = registry.provide('stuck', {
      open: (exchange) => exchange.session?.id,
      close: async (id) => {
        throw new Error(`cannot close for ${id}`);
      },
    });
    const odd = registry.provide('odd', {
      open: () => '',
      close: () => {
        throw 'odd';
      },
    });
    const last = provided.provide('last', () => 'last');
    provided.tool(async (exchange) => {
      for (const one of [first, stuck, odd, last]) await exchange.resolve<unknown>(one);
      return 'done';
    });
    const session = await host.begin();
    assert.equal(textOf(await host.tool('t', {}, { session })), 'done');
    assert.deepEqual(events.slice(2), ['close last', 'close first']);
    const shown = logged.slice(1).map((entry) => {
      const { level, event, dependency, error } = entry as Record<string, string>;
      return [level, event, dependency, error?.split('\n')[0]];
    });
    assert.deepEqual(shown, [
      ['error', 'dependency not closed', 'odd', 'odd'],
      ['error', 'dependency not closed', 'stuck', 'Error: cannot close for [id]'],
    ]);
    assert.doesNotMatch(JSON.stringify(logged), new RegExp(session.id));
  });

  test('that nobody waited for is closed all the same, and none is made once the run is over', async () => {
    const provided = new Provided();
    const slow = Promise.withResolvers<string>();
    const late = provided.provide('late', () => slow.promise);
    const broken = provided.provide('broken', async () => {
      throw new Error('never mind');
    });
    let kept: Exchange | undefined;
    provided.tool((exchange) => {
      kept = exchange;
      for (const one of [late, broken]) exchange.resolve(one).catch(() => undefined);
      return 'done';
    });
    const result = provided.host.tool('t');
    slow.resolve('here');
    assert.equal(textOf(await result), 'done');
    assert.deepEqual(provided.events, ['open late', 'open broken', 'close late']);
    await assert.rejects(kept?.resolve(late) ?? Promise.resolve(), /the exchange is over/);
  });

  test('serves resources, prompts and completions too', async () => {
    const provided = new Provided();
    const { registry, host, events } = provided;
    const words = provided.provide('words', () => ['one', 'two']);
    const all = async (exchange: Exchange) => (await exchange.resolve(words)).join();
    registry.resource('n://words', {}, (_, exchange) => all(exchange));
    const complete = { w: (_: string, __: object, exchange: Exchange) => exchange.resolve(words) };
    registry.prompt('p', { arguments: z.object({ w: z.string() }), complete }, (_, exchange) => all(exchange));
    const read = await host.request('resources/read', { uri: 'n://words' });
    assert.equal((read.contents as { text: string }[])[0]?.text, 'one,two');
    const got = await host.request('prompts/get', { name: 'p', arguments: { w: 'x' } });
    assert.match(JSON.stringify(got), /one,two/);
    const ref = { type: 'ref/prompt', name: 'p' };
    const { completion } = await host.request('completion/complete', { ref, argument: { name: 'w', value: '' } });
    assert.deepEqual((completion as { values: string[] }).values, ['one', 'two']);
    assert.equal(events.filter((event) => event === 'close words').length, 3);
  });

  test('shares the progress of the call with the handler', async () => {
    const provided = new Provided();
    const loaded = provided.provide('loaded', (exchange) => exchange.progress(2, 3));
    provided.tool(async (exchange) => {
      exchange.progress(1, 3);
      await exchange.resolve(loaded);
      exchange.progress(2, 3);
      exchange.progress(3, 3);
    });
    const call = provided.host.call('tools/call', { name: 't' }, { progressToken: 1 });
    await call.run();
    assert.deepEqual(
      call.sent.map(({ params }) => params?.progress),
      [1, 2, 3],
    );
  });

  test('is refused without a name, with a name that is taken, or with what is no function', () => {
    const { registry } = new Provided();
    registry.provide('a', { open: () => 1 });
    const bad = (name: unknown, options: unknown, message: RegExp) =>
      assert.throws(() => registry.provide(name as string, options as never), { name: 'TypeError', message });
    bad('a', { open: () => 1 }, /dependency "a": there is one of that name already/);
    bad('', { open: () => 1 }, /expected a name/);
    bad('b', {}, /dependency "b": expected a function that opens it/);
    bad('b', { open: () => 1, close: 'x' }, /dependency "b": expected a function that closes it/);
  });

  test('is expected where one is resolved', async () => {
    const provided = new Provided();
    provided.tool((exchange) => exchange.resolve('database' as never));
    assert.match(failureIn(await provided.host.tool('t')) ?? '', /resolve: expected a dependency/);
  });
});
