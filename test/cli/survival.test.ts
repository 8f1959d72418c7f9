import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { Audit } from '../support/audit.ts';
import { type Body, begin, Events, meta, modern, resultOf, rpc, send } from '../support/wire.ts';
import { Served, temporaryFolder } from './run.ts';

const folder = temporaryFolder();
let files = 0;

/** Two processes on one file, and one that comes when another was killed. */
class Processes {
  readonly #bucket = `sqlite:${join(folder, `${++files}.db`)}`;

  start(): Promise<Served> {
    return Served.start('--bucket', this.#bucket, '--log-level', 'info', '--log-format', 'json');
  }
}

const purge = (more: Body = {}) => rpc('tools/call', { name: 'purge', arguments: { name: 'cache' }, ...more }, 7);
const textOf = (message: Body | undefined) => JSON.stringify(resultOf(message ?? {})['content']);

/** The question of a call that just began, and the stream it came on. */
async function asked(url: string, session: Record<string, string>) {
  const stream = await Events.open(url, session, purge());
  const question = await stream.next();
  assert.equal(question?.['method'], 'elicitation/create');
  return { stream, id: String(question['id']) };
}

function accept(url: string, session: Record<string, string>, id: string) {
  return send(url, { jsonrpc: '2.0', id, result: { action: 'accept', content: {} } }, session);
}

async function kill({ child, exit }: Served): Promise<void> {
  child.kill('SIGKILL');
  await exit;
}

async function measured(t: TestContext, version: string): Promise<void> {
  const processes = new Processes();
  const [one, two] = await Promise.all([processes.start(), processes.start()]);
  const session = { 'Mcp-Session-Id': await begin(one.url, version, { elicitation: {} }) };
  const waits: number[] = [];
  for (let round = 0; round < 10; round++) {
    const { stream, id } = await asked(one.url, session);
    assert.equal((await accept(two.url, session, id)).status, 202);
    const answered = performance.now();
    assert.match(textOf(await stream.next()), /purged CACHE/);
    waits.push(Math.round(performance.now() - answered));
    assert.equal(await stream.next(), undefined);
  }
  waits.sort((a, b) => a - b);
  t.diagnostic(`heard after ${waits[5]} ms (median), ${waits.at(-1)} ms (longest)`);
  await Promise.all([one.stop(), two.stop()]);
}

describe('two processes on one file', () => {
  for (const version of ['2025-06-18', '2025-11-25']) {
    test(`row 64 row 90 the one of ${version} that asks hears the answer that the other took`, (t) =>
      measured(t, version));

    test(`row 44 row 90 a question of ${version} outlives kill -9: its answer is stored by the other, and used once`, async () => {
      const processes = new Processes();
      const [one, two] = await Promise.all([processes.start(), processes.start()]);
      const session = { 'Mcp-Session-Id': await begin(one.url, version, { elicitation: {} }) };
      const { stream, id } = await asked(one.url, session);
      await kill(one);
      await assert.rejects(stream.next());
      assert.equal((await accept(two.url, session, id)).status, 202);
      assert.equal(two.events.filter(({ event }) => event === 'elicitation answered').length, 1);
      const again = await send(two.url, purge(), session);
      assert.match(textOf(again.body), /purged CACHE/);
      assert.equal(again.messages.length, 1);
      const { stream: third, id: other } = await asked(two.url, session);
      assert.notEqual(other, id);
      third.leave();
      await two.stop('SIGKILL');
      const audit = new Audit();
      audit.keepSecret(session['Mcp-Session-Id'], id, other, 'cache', 'CACHE');
      audit.hear([...one.events, ...two.events]);
      audit.check();
    });
  }

  test('row 31 row 90 a question of 2026-07-28 outlives kill -9: the call is finished by the other, once', async () => {
    const processes = new Processes();
    const [one, two] = await Promise.all([processes.start(), processes.start()]);
    const headers = modern('tools/call', 'purge');
    const _meta = meta({ elicitation: {} });
    const { requestState = null } = resultOf((await send(one.url, purge({ _meta }), headers)).body);
    await kill(one);
    const more = { _meta, requestState, inputResponses: { confirm: { action: 'accept' } } };
    const tries = await Promise.all(Array.from({ length: 5 }, () => send(two.url, purge(more), headers)));
    const done = tries.filter(({ body }) => body['result'] !== undefined);
    assert.equal(done.length, 1);
    assert.match(textOf(done[0]?.body), /purged CACHE/);
    await two.stop();
  });
});
