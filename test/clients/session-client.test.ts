import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { SdkHttpError, type StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import * as z from 'zod';
import { connect, type ConnectOptions, type SessionClient } from '../../host/client.ts';
import demo from '../../host/demo.ts';
import {
  elicit,
  elicitUrl,
  listRoots,
  type Question,
  Registry,
  sample,
  serve,
  type ServeOptions,
} from '../../host/library.ts';
import { run, temporaryFolder } from '../cli/run.ts';

const folder = temporaryFolder();
const handshakes = ['2025-03-26', '2025-06-18', '2025-11-25'] as const;
const asking = ['2025-06-18', '2025-11-25', '2026-07-28'] as const;
const who = { name: 'test', version: '1.2' };

/** A server that ends with the test, and what it logs. */
async function started(t: TestContext, registry: Registry, options: ServeOptions = {}) {
  const events: string[] = [];
  const log = (_: string, event: string) => void events.push(event);
  const server = await serve(registry, { bucket: 'memory:', port: 0, log, ...options });
  t.after(() => server.close());
  return { server, url: server.url, events };
}

/** A client that ends with the test. */
async function connected(t: TestContext, url: string, options: Partial<ConnectOptions> = {}): Promise<SessionClient> {
  const client = await connect(url, { ...who, ...options });
  t.after(() => client.close());
  return client;
}

async function text(client: SessionClient, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return content.map((block) => (block.type === 'text' ? block.text : '')).join();
}

function sessionOf(client: SessionClient): string {
  return (client.transport as StreamableHTTPClientTransport).sessionId ?? '';
}

const countOf = (events: readonly string[], event: string) => events.filter((one) => one === event).length;

type Answered = Response | undefined;

/** Keeps no socket, which a restart of the server would break under the next request. */
const unpooled = { requestInit: { headers: { Connection: 'close' } } };

/** A `fetch` that writes down what is posted. `answer` may answer in the place of the server. */
function watched(answer: (method: string, id: number) => Answered | Promise<Answered> = () => undefined) {
  const posted: string[] = [];
  const watching = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const { method = init.method, id } = init.method === 'POST' ? JSON.parse(String(init.body)) : {};
    posted.push(method);
    return (await answer(method, id)) ?? (await fetch(url, init));
  };
  return { posted, transport: { ...unpooled, fetch: watching } };
}

const lost = () => Response.json({ jsonrpc: '2.0', error: { code: -32600, message: 'gone' } }, { status: 404 });

describe('a client', () => {
  for (const revision of [...handshakes, '2026-07-28'] as const) {
    test(`speaks ${revision}, and ends its session`, async (t) => {
      const { url, events } = await started(t, demo);
      const client = await connected(t, url, { revision });
      assert.equal(client.getNegotiatedProtocolVersion(), revision);
      const { structuredContent } = await client.callTool({ name: 'whoami' });
      assert.deepEqual(structuredContent, { ...who, revision });
      await client.close();
      const ended = countOf(events, 'session deleted');
      assert.equal(ended, revision === '2026-07-28' ? 0 : 1);
    });
  }

  test('speaks the newest revision that the server speaks', async (t) => {
    const { url } = await started(t, demo);
    assert.equal((await connected(t, url)).getNegotiatedProtocolVersion(), '2026-07-28');
    const stateful = await started(t, demo, { mode: 'stateful' });
    assert.equal((await connected(t, stateful.url)).getNegotiatedProtocolVersion(), '2025-11-25');
    await assert.rejects(connect(stateful.url, { ...who, revision: '2026-07-28' }), { code: -32022 });
  });

  for (const revision of asking) {
    test(`answers what a handler asks on ${revision}`, async (t) => {
      const registry = new Registry({ name: 'asks', version: '1' });
      const ask = (name: string, question: Question) =>
        registry.tool(name, {}, async (_, exchange) => {
          const { action, content } = await exchange.ask('q', question);
          return JSON.stringify([action, content]);
        });
      ask('form', elicit('How many?', z.object({ n: z.int() })));
      ask('page', elicitUrl('Sign in', 'https://example.org/sign-in'));
      const words = { role: 'user', content: { type: 'text', text: 'Hi' } } as const;
      ask('model', sample({ messages: [words], maxTokens: 10 }));
      ask('roots', listRoots());
      const { url } = await started(t, registry);
      const roots = { roots: [{ uri: 'file:///here' }] };
      const sampled = { role: 'assistant', content: { type: 'text', text: 'Hello' }, model: 'm' } as const;
      const client = await connected(t, url, {
        revision,
        answer: {
          elicit: (params) =>
            params.mode === 'url'
              ? { action: 'decline' }
              : { action: 'accept', content: { n: Object.keys(params.requestedSchema.properties).length } },
          sample: ({ maxTokens }) => ({ ...sampled, content: { type: 'text', text: `${maxTokens}` } }),
          listRoots: () => roots,
        },
      });
      assert.equal(await text(client, 'form'), '["accept",{"n":1}]');
      const page = await text(client, 'page');
      if (revision === '2025-06-18') assert.match(page, /no words for this question/);
      else assert.equal(page, '["decline",{}]');
      assert.match(await text(client, 'model'), /"text":"10"/);
      assert.equal(await text(client, 'roots'), JSON.stringify(['accept', roots]));
    });
  }

  test('declares only what it answers', async (t) => {
    const registry = new Registry({ name: 'asks', version: '1' });
    registry.tool('ask', {}, async (_, { clientCapabilities }) => JSON.stringify(clientCapabilities));
    const { url } = await started(t, registry);
    assert.equal(await text(await connected(t, url), 'ask'), '{}');
    const answer = { listRoots: () => ({ roots: [] }) };
    assert.equal(await text(await connected(t, url, { answer }), 'ask'), '{"roots":{}}');
  });
});

describe('a client whose session was lost', () => {
  for (const revision of handshakes) {
    test(`begins another and sends its request again: deleted by an administrator, on ${revision}`, async (t) => {
      const bucket = `sqlite:${join(folder, `${randomUUID()}.db`)}`;
      const { url, events } = await started(t, demo, { bucket });
      const client = await connected(t, url, { revision });
      assert.equal(await text(client, 'bump'), '1');
      const before = sessionOf(client);
      const { code, err } = await run(['sessions', 'delete', before, '--bucket', bucket]);
      assert.equal(code, 0, err);
      assert.equal(await text(client, 'bump'), '1');
      assert.notEqual(sessionOf(client), before);
      assert.equal(await text(client, 'bump'), '2');
      assert.equal(countOf(events, 'session created'), 2);
      const { structuredContent } = await client.callTool({ name: 'whoami' });
      assert.deepEqual(structuredContent, { ...who, revision });
    });
  }

  test('goes on after a restart that lost the sessions, and can be asked as before', async (t) => {
    const first = await started(t, demo);
    const answer = { elicit: () => ({ action: 'accept' as const, content: {} }) };
    const client = await connected(t, first.url, { revision: '2025-11-25', answer, transport: unpooled });
    assert.equal(await text(client, 'remember', { what: 'a' }), '1 so far');
    await first.server.close();
    await started(t, demo, { port: first.server.port });
    assert.equal(await text(client, 'purge', { name: 'cache' }), 'purged CACHE');
    assert.equal(await text(client, 'remember', { what: 'b' }), '1 so far');
  });

  test('keeps it over a restart that kept the sessions', async (t) => {
    const bucket = `sqlite:${join(folder, `${randomUUID()}.db`)}`;
    const first = await started(t, demo, { bucket });
    const client = await connected(t, first.url, { revision: '2025-11-25', transport: unpooled });
    const session = sessionOf(client);
    assert.equal(await text(client, 'bump'), '1');
    await first.server.close();
    await started(t, demo, { bucket, port: first.server.port });
    assert.equal(await text(client, 'bump'), '2');
    assert.equal(sessionOf(client), session);
  });

  test('makes one handshake for all the requests that lost it together', async (t) => {
    const first = await started(t, demo);
    const { posted, transport } = watched();
    const client = await connected(t, first.url, { revision: '2025-11-25', transport });
    await first.server.close();
    const { events } = await started(t, demo, { port: first.server.port });
    const counts = await Promise.all(Array.from({ length: 20 }, async () => Number(await text(client, 'bump'))));
    assert.deepEqual(
      counts.sort((a, b) => a - b),
      Array.from({ length: 20 }, (_, index) => index + 1),
    );
    assert.equal(countOf(posted, 'initialize'), 2);
    assert.equal(countOf(events, 'session created'), 1);
  });

  test('has its log level and its subscriptions again', async (t) => {
    const registry = new Registry({ name: 'tells', version: '1' });
    for (const name of ['a', 'b']) registry.resource(`n://${name}`, {}, () => name);
    registry.tool('tell', {}, (_, exchange) => {
      exchange.log('info', 'told');
      for (const name of ['a', 'b']) registry.announceUpdate(`n://${name}`);
      return 'done';
    });
    const first = await started(t, registry);
    const { posted, transport } = watched();
    const client = await connected(t, first.url, { revision: '2025-11-25', transport });
    const heard: unknown[] = [];
    const updated = Promise.withResolvers<void>();
    client.setNotificationHandler('notifications/message', ({ params }) => void heard.push(params.data));
    client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
      heard.push(params.uri);
      updated.resolve();
    });
    await client.setLoggingLevel('info');
    for (const name of ['a', 'b']) await client.subscribeResource({ uri: `n://${name}` });
    await client.unsubscribeResource({ uri: 'n://b' });
    await first.server.close();
    await started(t, registry, { port: first.server.port });
    posted.length = 0;
    assert.equal(await text(client, 'tell'), 'done');
    await updated.promise;
    assert.deepEqual(heard.sort(), ['n://a', 'told']);
    assert.deepEqual(
      posted.filter((method) => method.startsWith('resources/')),
      ['resources/subscribe'],
    );
  });

  test('fails the request if it is lost again, having sent it twice', async (t) => {
    const { url } = await started(t, demo);
    const { posted, transport } = watched((method) => (method === 'tools/call' ? lost() : undefined));
    const client = await connected(t, url, { revision: '2025-11-25', transport });
    await assert.rejects(client.callTool({ name: 'bump' }), (error) => {
      assert.ok(error instanceof SdkHttpError);
      assert.equal(error.status, 404);
      return true;
    });
    assert.deepEqual([countOf(posted, 'tools/call'), countOf(posted, 'initialize')], [2, 2]);
  });

  test('fails the request if the handshake fails, and tries again with the next', async (t) => {
    const { url } = await started(t, demo);
    let isDown = false;
    const { transport } = watched((method) => {
      if (!isDown) return undefined;
      return method === 'initialize' ? Response.json({}, { status: 503 }) : lost();
    });
    const client = await connected(t, url, { revision: '2025-11-25', transport });
    isDown = true;
    const failures = await Promise.allSettled([1, 2].map(() => client.callTool({ name: 'bump' })));
    for (const failure of failures) {
      assert.ok(failure.status === 'rejected' && failure.reason instanceof SdkHttpError);
      assert.equal(failure.reason.status, 503);
    }
    isDown = false;
    assert.equal(await text(client, 'bump'), '1');
  });

  test('does not wait for itself if it is lost once more during the handshake', async (t) => {
    const { url } = await started(t, demo);
    let isDown = false;
    const gone = new Set(['tools/call', 'logging/setLevel']);
    const { transport } = watched((method) => (isDown && gone.has(method) ? lost() : undefined));
    const client = await connected(t, url, { revision: '2025-11-25', transport });
    await client.setLoggingLevel('info');
    isDown = true;
    await assert.rejects(client.callTool({ name: 'bump' }), { name: 'SdkHttpError' });
    isDown = false;
    assert.equal(await text(client, 'bump'), '1');
  });

  test('does not send what was cancelled meanwhile', async (t) => {
    const { url, events } = await started(t, demo);
    const gate = Promise.withResolvers<undefined>();
    const reached = Promise.withResolvers<void>();
    let isLost = false;
    const { posted, transport } = watched((method) => {
      if (!isLost) return undefined;
      if (method === 'tools/call') return lost();
      if (method !== 'initialize') return undefined;
      reached.resolve();
      return gate.promise;
    });
    const client = await connected(t, url, { revision: '2025-11-25', transport });
    isLost = true;
    const abort = new AbortController();
    const call = client.callTool({ name: 'bump' }, { signal: abort.signal });
    await reached.promise;
    abort.abort(new Error('never mind'));
    await assert.rejects(call, /never mind/);
    isLost = false;
    gate.resolve(undefined);
    assert.equal(await text(client, 'bump'), '1');
    assert.equal(countOf(posted, 'notifications/cancelled'), 0);
    assert.equal(countOf(events, 'session created'), 2);
  });

  test('is told so, and closed, if the server speaks another revision by now', async (t) => {
    const { url } = await started(t, demo);
    let isNew = false;
    const { transport } = watched((method, id) => {
      if (!isNew) return undefined;
      if (method === 'tools/call') return lost();
      if (method !== 'initialize') return undefined;
      const result = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo: who };
      return Response.json({ jsonrpc: '2.0', id, result });
    });
    const client = await connected(t, url, { revision: '2025-11-25', transport });
    const closed = Promise.withResolvers<void>();
    client.onclose = closed.resolve;
    isNew = true;
    await assert.rejects(client.callTool({ name: 'bump' }), /spoke revision 2025-11-25 and now speaks 2025-06-18/);
    await closed.promise;
    await assert.rejects(client.callTool({ name: 'bump' }), /Not connected/);
  });
});

describe('a request is sent once', () => {
  test('if its session ended while it ran', async (t) => {
    const registry = new Registry({ name: 'slow', version: '1' });
    const running = Promise.withResolvers<void>();
    let runs = 0;
    registry.tool('pay', {}, async (_, exchange) => {
      runs += 1;
      running.resolve();
      await exchange.waitCancelled();
      return 'paid';
    });
    const { url } = await started(t, registry);
    const client = await connected(t, url, { revision: '2025-11-25' });
    const paid = client.callTool({ name: 'pay' });
    await running.promise;
    const headers = { 'Mcp-Session-Id': sessionOf(client) };
    assert.equal((await fetch(url, { method: 'DELETE', headers })).status, 204);
    await assert.rejects(paid, { code: -32603, message: /The session ended while the call ran/ });
    assert.equal(runs, 1);
  });

  test('if the connection breaks, or the server fails', async (t) => {
    const { url } = await started(t, demo);
    const answers = [
      () => Promise.reject(new TypeError('reset')),
      () => Response.json({}, { status: 500 }),
      () => Response.json({}, { status: 503 }),
      () => Response.json({}, { status: 400 }),
    ];
    for (const answer of answers) {
      const { posted, transport } = watched((method) => (method === 'tools/call' ? answer() : undefined));
      const client = await connected(t, url, { revision: '2025-11-25', transport });
      await assert.rejects(client.callTool({ name: 'bump' }));
      assert.deepEqual([countOf(posted, 'tools/call'), countOf(posted, 'initialize')], [1, 1]);
    }
  });

  test('if it named no session: 2026-07-28, a wrong address', async (t) => {
    const { url } = await started(t, demo);
    const { posted, transport } = watched((method) => (method === 'tools/call' ? lost() : undefined));
    const client = await connected(t, url, { revision: '2026-07-28', transport });
    await assert.rejects(client.callTool({ name: 'bump' }));
    assert.equal(countOf(posted, 'tools/call'), 1);
    await assert.rejects(connect(`${url}/elsewhere`, { ...who, revision: '2025-11-25' }), { name: 'SdkHttpError' });
  });
});

describe('closing a client', () => {
  test('ends the session with DELETE, once', async (t) => {
    const { url, events } = await started(t, demo);
    const { posted, transport } = watched();
    const client = await connect(url, { ...who, revision: '2025-11-25', transport });
    await client.close();
    await client.close();
    assert.equal(countOf(posted, 'DELETE'), 1);
    assert.equal(countOf(events, 'session deleted'), 1);
    await assert.rejects(client.callTool({ name: 'bump' }), /Not connected/);
  });

  test('succeeds when there is no server any more; `onerror` hears why the session could not be ended', async (t) => {
    const { url, server } = await started(t, demo);
    const client = await connect(url, { ...who, revision: '2025-11-25' });
    const errors: Error[] = [];
    client.onerror = (error) => errors.push(error);
    await server.close();
    await client.close();
    assert.ok(errors.length > 0);
  });
});
