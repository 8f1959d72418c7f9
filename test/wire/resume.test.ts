import assert from 'node:assert/strict';
import test from 'node:test';
import { Gate, text } from '../support/dispatch.ts';
import type { Tool } from '../support/dispatch.ts';
import { begin, errorOf, Events, keysIn, meta, modern, read, resultOf, rpc, send, start } from '../support/wire.ts';
import type { Body, Started, StreamEvent } from '../support/wire.ts';

const call = (name: string, parameters: Body = {}, id: string | number = 1) =>
  rpc('tools/call', { name, arguments: parameters, _meta: { progressToken: 'p' } }, id);
const progress = (step: number): Body => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken: 'p', progress: step },
});
const messages = (events: readonly StreamEvent[]): Body[] =>
  events.map(({ message }) => message).filter((message) => message !== undefined);

/** A tool that shows progress at each step, and takes the next when it is let. */
function stepping(): { tool: Tool; step: (count?: number) => void; finish: () => void } {
  const gates = Array.from({ length: 100 }, () => new Gate());
  let opened = 0;
  const step = (count = 1): void => {
    for (let each = 0; each < count; each += 1) gates[opened++]?.open();
  };
  const done = new Gate();
  const tool: Tool = async (running) => {
    for (const [index, gate] of gates.entries()) {
      await Promise.race([gate.opened, done.opened]);
      if (index >= opened) break;
      running.notify({ method: 'notifications/progress', params: { progressToken: 'p', progress: index + 1 } });
    }
    return text('finished');
  };
  return { tool, step, finish: done.open };
}

async function session({ url }: Started, version?: string): Promise<Record<string, string>> {
  return { 'Mcp-Session-Id': await begin(url, version) };
}

function resume(url: string, headers: Record<string, string>, id: string | undefined): Promise<Events> {
  return Events.open(url, { ...headers, Accept: 'text/event-stream', 'Last-Event-ID': id ?? '' });
}

test('T-57 MODE-99 fault 073 a stream begins with an id, a time to come back and no message, and every event has an id', async (t) => {
  const started = await start(t, { retry: 2500 });
  const stream = await Events.open(started.url, await session(started), call('progress', { steps: 2 }));
  const [priming, ...events] = await stream.rest();
  assert.deepEqual([priming?.retry, priming?.message], ['2500', undefined]);
  assert.match(priming?.id ?? '', /^[\x21-\x7e]+$/);
  assert.deepEqual(messages(events).slice(0, 2), [progress(1), progress(2)]);
  const ids = [priming, ...events].map((event) => event?.id);
  assert.equal(new Set(ids).size, 4);
  assert.ok(ids.every((id) => id !== undefined));
});

test('MODE-100 fault 074 only 2025-11-25 has events without a message; before, events have ids all the same', async (t) => {
  const started = await start(t);
  for (const version of ['2025-06-18', '2025-03-26']) {
    const headers = await session(started, version);
    const events = await (await Events.open(started.url, headers, call('progress', { steps: 1 }))).rest();
    assert.equal(messages(events).length, events.length);
    const resumed = await (await resume(started.url, headers, events[0]?.id)).rest();
    assert.deepEqual(resumed, events.slice(1));
  }
});

test('T-58 MODE-101 row 69 fault 060 a client that lost its connection comes back for the rest, and it goes on live', async (t) => {
  const { tool, step, finish } = stepping();
  const started = await start(t, { tools: { stepping: tool } });
  const headers = await session(started);
  step(2);
  const stream = await Events.open(started.url, headers, call('stepping'));
  const [priming, first] = [await stream.event(), await stream.event()];
  stream.leave();
  step();
  const resumed = await resume(started.url, headers, first?.id);
  assert.equal(resumed.response.headers.get('mcp-session-id'), headers['Mcp-Session-Id']);
  assert.deepEqual((await resumed.event())?.message, progress(2));
  assert.deepEqual((await resumed.event())?.message, progress(3));
  step();
  assert.deepEqual((await resumed.event())?.message, progress(4));
  finish();
  const last = await resumed.event();
  assert.deepEqual(resultOf(last?.message ?? {}), text('finished'));
  assert.equal(await resumed.event(), undefined);
  const again = await (await resume(started.url, headers, priming?.id)).rest();
  assert.deepEqual(messages(again), [progress(1), progress(2), progress(3), progress(4), last?.message]);
  assert.deepEqual(await (await resume(started.url, headers, last?.id)).rest(), []);
});

test('H-42 a handler gives its connection up, and the client comes back for the result', async (t) => {
  const closed: boolean[] = [];
  const gate = new Gate();
  const polled: Tool = async (running) => {
    closed.push(running.closeStream(7), running.closeStream());
    await gate.opened;
    running.notify({ method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } });
    return text('finished');
  };
  const started = await start(t, { tools: { polled } });
  const headers = await session(started);
  const events = await (await Events.open(started.url, headers, call('polled'))).rest();
  assert.deepEqual(messages(events), []);
  assert.deepEqual(
    events.map(({ retry }) => retry),
    ['1000', '7'],
  );
  const resumed = await resume(started.url, headers, events[0]?.id);
  gate.open();
  const [first, last] = messages(await resumed.rest());
  assert.deepEqual([first, resultOf(last ?? {})], [progress(1), text('finished')]);
  for (const version of ['2025-06-18', '2025-03-26']) {
    const { body } = await send(started.url, call('polled'), await session(started, version));
    assert.deepEqual(resultOf(body), text('finished'));
  }
  assert.deepEqual(closed, [true, true, false, false, false, false]);
});

test('T-59 MODE-102 MODE-103 fault 069 fault 070 an id that is not of this session is refused, and brings nothing', async (t) => {
  const started = await start(t);
  const { url } = started;
  const one = await session(started);
  const other = await session(started);
  const events = await (await Events.open(url, one, call('progress'))).rest();
  const known = events[0]?.id ?? '';
  await (await Events.open(url, other, call('progress'))).rest();
  const [stream = ''] = known.split('.');
  const bad = [
    'x',
    '0',
    stream,
    `${stream}.`,
    `${stream}.-1`,
    `${stream}.1.2`,
    `${stream}.99`,
    `${known} `.padEnd(5000, '1'),
    '__defineGetter__.0',
    `${'A'.repeat(16)}.0`,
    one['Mcp-Session-Id'] ?? '',
  ];
  for (const [headers, id] of [[other, known] as const, ...bad.map((each) => [one, each] as const)]) {
    const response = await fetch(url, { headers: { ...headers, Accept: 'text/event-stream', 'Last-Event-ID': id } });
    const { status, body } = await read(response);
    assert.deepEqual([status, errorOf(body)['code']], [400, -32600], id.slice(0, 50));
  }
  assert.equal((await (await resume(url, one, known)).rest()).length, events.length - 1);
  assert.equal(known.includes(one['Mcp-Session-Id'] ?? ''), false);
});

test('fault 026 a session that is deleted takes its streams along', async (t) => {
  const started = await start(t);
  const { url, bucket } = started;
  const headers = await session(started);
  const steps = { steps: 300 };
  const [priming] = await (await Events.open(url, headers, call('progress', steps))).rest();
  assert.ok((await keysIn(bucket)) > 2);
  assert.equal((await send(url, '', headers, 'DELETE')).status, 204);
  assert.equal(await keysIn(bucket), 0);
  const gone = await fetch(url, { headers: { ...headers, Accept: '*/*', 'Last-Event-ID': priming?.id ?? '' } });
  assert.equal((await read(gone)).status, 404);
});

test('an answer in JSON writes nothing for its stream', async (t) => {
  const started = await start(t);
  const headers = await session(started);
  assert.equal((await send(started.url, call('echo'), headers)).status, 200);
  assert.equal(await keysIn(started.bucket), 1);
});

test('H-55 H-12 2026-07-28 has events without ids, and nothing to come back to', async (t) => {
  const { url } = await start(t);
  const params = { name: 'progress', arguments: {}, _meta: meta({}, { progressToken: 'p' }) };
  const { text: events, messages: all } = await send(url, rpc('tools/call', params), {
    ...modern('tools/call', 'progress'),
    'Last-Event-ID': 'x',
  });
  assert.equal(all.length, 4);
  for (const event of events.split('\n\n').filter((each) => each !== '')) assert.match(event, /^data: \{/);
  const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Last-Event-ID': 'x' };
  assert.equal((await send(url, '', headers, 'GET')).status, 405);
});

test('times that a timer does not take are refused before anything is served', async (t) => {
  for (const bad of [-1, 1.5, Number.NaN, 2 ** 31]) {
    await assert.rejects(start(t, { retry: bad }), { name: 'TypeError', message: /^retry: expected/ });
    await assert.rejects(start(t, { keepAlive: bad }), { name: 'TypeError', message: /^keepAlive: expected/ });
  }
});
