import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import type { TestContext } from 'node:test';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import { lostAfter } from '../../host/resume.ts';
import { SwitchedBucket } from '../support/buckets.ts';
import { Gate, text } from '../support/dispatch.ts';
import type { Tool } from '../support/dispatch.ts';
import { begin, errorOf, Events, notification, open, read, resultOf, rpc, send, start } from '../support/wire.ts';
import type { Body } from '../support/wire.ts';

const call = (name: string) => rpc('tools/call', { name, arguments: {}, _meta: { progressToken: 'p' } }, 'c');

/** A tool that says that it runs, and then waits to be told to end. */
function gated(): { tool: Tool; gate: Gate } {
  const gate = new Gate();
  const tool: Tool = async (running) => {
    running.notify({ method: 'notifications/progress', params: { progressToken: 'p', progress: 1 } });
    await gate.opened;
    running.notify({ method: 'notifications/progress', params: { progressToken: 'p', progress: 2 } });
    return text('finished');
  };
  return { tool, gate };
}

function resume(url: string, headers: Record<string, string>, id: string | undefined): Promise<Events> {
  return Events.open(url, { ...headers, Accept: 'text/event-stream', 'Last-Event-ID': id ?? '' });
}

/** Two servers on one SQLite file, each with a bucket of its own. */
async function two(t: TestContext, slow: Tool, now?: () => number) {
  const folder = mkdtempSync(join(tmpdir(), 'resume-'));
  const more = { tools: { slow }, ...(now && { now }) };
  const stores = [new SqliteBucket(join(folder, 'a.db')), new SqliteBucket(join(folder, 'a.db'))] as const;
  const servers = [
    await start(t, { ...more, store: stores[0] }),
    await start(t, { ...more, store: stores[1] }),
  ] as const;
  // What is to be done last is said last.
  t.after(async () => {
    await Promise.all(stores.map((store) => store.close()));
    rmSync(folder, { recursive: true });
  });
  return servers;
}

test('T-58 a call goes on in its process while its client follows it through another', async (t) => {
  const { tool, gate } = gated();
  const [one, other] = await two(t, tool);
  const headers = { 'Mcp-Session-Id': await begin(one.url) };
  const stream = await Events.open(one.url, headers, call('slow'));
  const priming = await stream.event();
  stream.leave();
  const resumed = await resume(other.url, headers, priming?.id);
  assert.equal((await resumed.event())?.message?.['method'], 'notifications/progress');
  gate.open();
  const [progress, response] = await resumed.rest();
  assert.equal(progress?.message?.['method'], 'notifications/progress');
  assert.deepEqual(resultOf(response?.message ?? {}), text('finished'));
  // Also when all is over, and again.
  const again = await (await resume(other.url, headers, progress?.id)).rest();
  assert.deepEqual(again, [response]);
});

test('H-46 a stream that is resumed through another process ends where it was', async (t) => {
  const { tool, gate } = gated();
  const [one, other] = await two(t, tool);
  const headers = { 'Mcp-Session-Id': await begin(one.url) };
  const stream = await Events.open(one.url, headers, call('slow'));
  const priming = await stream.event();
  await stream.event();
  const here = await resume(one.url, headers, priming?.id);
  assert.equal(await stream.event(), undefined);
  await here.event();
  const there = await resume(other.url, headers, priming?.id);
  assert.deepEqual(await here.rest(), []);
  gate.open();
  assert.equal((await there.rest()).length, 3);
});

test('a call whose process has gone ends with an error for who comes back', async (t) => {
  const { tool, gate } = gated();
  let time = 1_800_000_000_000;
  const [one, other] = await two(t, tool, () => time);
  const headers = { 'Mcp-Session-Id': await begin(one.url) };
  const stream = await Events.open(one.url, headers, call('slow'));
  const priming = await stream.event();
  const resumed = await resume(other.url, headers, priming?.id);
  const progress = await resumed.event();
  time += lostAfter + 1;
  const [lost, ...more] = await resumed.rest();
  assert.equal(lost?.message?.['id'], 'c');
  assert.equal(errorOf(lost?.message ?? {})['code'], -32603);
  assert.deepEqual(more, []);
  // It had only been asleep: nothing follows a last word.
  gate.open();
  await one.sessions.settled();
  assert.deepEqual(await (await resume(other.url, headers, progress?.id)).rest(), [lost]);
});

test('MODE-107 fault 022 DELETE, on whichever process, ends a stream that was resumed', async (t) => {
  const { tool, gate } = gated();
  t.after(() => gate.open());
  const [one, other] = await two(t, tool);
  for (const at of [one, other]) {
    const headers = { 'Mcp-Session-Id': await begin(one.url) };
    const stream = await Events.open(one.url, headers, call('slow'));
    const priming = await stream.event();
    const resumed = await resume(one.url, headers, priming?.id);
    await resumed.event();
    assert.equal((await send(at.url, '', headers, 'DELETE')).status, 204);
    await resumed.rest();
    assert.deepEqual((await one.bucket.list()).keys, []);
    const gone = await fetch(at.url, { headers: { ...headers, Accept: '*/*', 'Last-Event-ID': priming?.id ?? '' } });
    assert.equal((await read(gone)).status, 404);
  }
});

test('a stream that was resumed ends when its session is terminated or its server closes', async (t) => {
  const { tool, gate } = gated();
  t.after(() => gate.open());
  const terminating: Tool = async ({ session }) => {
    await session?.terminate();
    return text('over');
  };
  const started = await start(t, { tools: { slow: tool, terminating }, drainTimeout: 1 });
  const { url, server } = started;
  const streams: Events[] = [];
  for (const _ of [1, 2]) {
    const headers = { 'Mcp-Session-Id': await begin(url) };
    const stream = await Events.open(url, headers, call('slow'));
    const resumed = await resume(url, headers, (await stream.event())?.id);
    await resumed.event();
    streams.push(resumed);
    if (streams.length === 1) await send(url, call('terminating'), headers);
  }
  await streams[0]?.rest();
  await server.close();
  await streams[1]?.rest();
});

test('MODE-116 a stream that was resumed keeps its session alive', async (t) => {
  const { tool, gate } = gated();
  let time = 1_800_000_000_000;
  const { url } = await start(t, { tools: { slow: tool }, now: () => time, sessionTtl: 30_000 });
  const headers = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, headers, call('slow'));
  const priming = await stream.event();
  stream.leave();
  const resumed = await resume(url, headers, priming?.id);
  await resumed.event();
  for (let passed = 0; passed < 3; passed += 1) {
    time += 25_000;
    assert.equal((await send(url, notification('notifications/initialized'), headers)).status, 202);
  }
  gate.open();
  const [, response] = await resumed.rest();
  assert.ok(response?.message);
});

test('D-17 fault 059 a stream that was resumed shows signs of life', async (t) => {
  const { tool, gate } = gated();
  const { url } = await start(t, { keepAlive: 5, tools: { slow: tool } });
  const headers = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, headers, call('slow'));
  const priming = await stream.event();
  const resumed = await resume(url, headers, priming?.id);
  await resumed.event();
  for (let comments = 0; comments < 3; comments += 1) assert.equal(await resumed.raw(), ':');
  gate.open();
  await resumed.rest();
});

test('a bucket that fails refuses who comes back with 503, and stops no call', async (t) => {
  const store = new SwitchedBucket();
  const { tool, gate } = gated();
  const { url } = await start(t, { store, tools: { slow: tool } });
  const headers = { 'Mcp-Session-Id': await begin(url) };
  const stream = await Events.open(url, headers, call('slow'));
  const priming = await stream.event();
  await stream.event();
  store.down = true;
  const failed = await fetch(url, { headers: { ...headers, Accept: '*/*', 'Last-Event-ID': priming?.id ?? '' } });
  assert.equal((await read(failed)).status, 503);
  gate.open();
  const events = await stream.rest();
  assert.equal(events.length, 2);
  store.down = false;
  // What could not be stored was tried again.
  const resumed = await (await resume(url, headers, priming?.id)).rest();
  assert.deepEqual(resumed.slice(1), events);
});

test('a reader that is too slow is cut off, and comes back for the latest and the result', async (t) => {
  const done = new Gate();
  const flood: Tool = async (running) => {
    const filling = 'x'.repeat(256 * 1024);
    for (let sent = 0; sent < 200; sent += 1) {
      running.notify({ method: 'notifications/message', params: { filling, sent } });
      await new Promise((resolve) => setImmediate(resolve));
    }
    done.open();
    return text('finished');
  };
  const { url, server, sessions } = await start(t, { tools: { flood } });
  const id = await begin(url);
  const body = JSON.stringify(call('flood'));
  const socket = await open(server.port);
  socket.on('error', () => undefined);
  const head = ['POST /mcp HTTP/1.1', 'Host: localhost', 'Content-Type: application/json', 'Accept: */*'];
  socket.write([...head, `Mcp-Session-Id: ${id}`, `Content-Length: ${body.length}`, '', body].join('\r\n'));
  const first = String(await new Promise<Buffer>((resolve) => socket.once('data', resolve)));
  socket.pause();
  await done.opened;
  const cut = new Promise((resolve) => socket.once('close', resolve));
  socket.on('data', () => undefined).resume();
  await cut;
  await sessions.settled();
  const priming = /^id: (\S+)$/m.exec(first)?.[1];
  const resumed = await (await resume(url, { 'Mcp-Session-Id': id }, priming)).rest();
  const last = resumed.at(-1)?.message ?? {};
  assert.deepEqual([last['id'], resultOf(last)], ['c', text('finished')]);
  const sent = resumed.slice(0, -1).map(({ message = {} }) => Number((message['params'] as Body)['sent']));
  assert.deepEqual(
    sent,
    Array.from(sent, (_, index) => 200 - sent.length + index),
  );
  assert.ok(sent.length > 0 && sent.length <= 16);
});
