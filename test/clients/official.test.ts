import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

let folder: string;
let server: ChildProcess;
let url: URL;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'mcp-session-'));
  const bucket = `sqlite:${join(folder, 'sessions.db')}`;
  server = spawn(process.execPath, ['host/main.ts', 'serve', '--port', '0', '--bucket', bucket], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  server.stderr?.resume();
  const [line] = await once(server.stdout as NodeJS.ReadableStream, 'data');
  url = new URL(String(line).replace('listening on ', '').trim());
});

after(async () => {
  server.kill('SIGTERM');
  const [status] = await once(server, 'exit');
  await rm(folder, { recursive: true });
  assert.equal(status, 0);
});

function post(sessionId: string): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'Mcp-Session-Id': sessionId,
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
  });
}

type Called = { readonly [member: string]: unknown };
type OnProgress = (progress: { progress: number }) => void;
const textOf = (result: Called) => (result.content as { text: string }[])[0]?.text;

/** What a client of either package goes through. */
async function round(
  call: (name: string, args?: Record<string, unknown>, onprogress?: OnProgress) => Promise<Called>,
): Promise<void> {
  assert.equal(textOf(await call('remember', { what: 'a' })), '1 so far');
  assert.equal(textOf(await call('remember', { what: 'b' })), '2 so far');
  await call('visit', { what: 'c' });
  const { structuredContent } = await call('visit', { what: 'd' });
  assert.deepEqual((structuredContent as { seen: string[] }).seen, ['a', 'b', 'c', 'd']);
  const counted = await Promise.all(Array.from({ length: 50 }, async () => Number(textOf(await call('bump')))));
  assert.deepEqual(
    counted.sort((a, b) => a - b),
    Array.from({ length: 50 }, (_, index) => index + 1),
  );
  const steps: number[] = [];
  assert.equal(
    textOf(await call('process', { steps: 3 }, ({ progress }) => steps.push(progress))),
    'processed 3 steps',
  );
  assert.deepEqual(steps, [1, 2, 3]);
}

describe('an official client', () => {
  test('@modelcontextprotocol/sdk: every tool, then DELETE, then 404', async () => {
    const client = new OldClient({ name: 'old', version: '1.32' }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: {} }));
    const transport = new OldTransport(url);
    // The declarations of that package are written for looser checks than ours.
    await client.connect(transport as Parameters<typeof client.connect>[0]);
    await round((name, args = {}, onprogress) =>
      client.callTool({ name, arguments: args }, undefined, onprogress ? { onprogress } : {}),
    );
    const { structuredContent } = await client.callTool({ name: 'whoami', arguments: {} });
    assert.deepEqual(structuredContent, { name: 'old', version: '1.32', revision: '2025-11-25' });
    assert.equal(textOf(await client.callTool({ name: 'purge', arguments: { name: 'cache' } })), 'purged CACHE');
    const sessionId = transport.sessionId ?? '';
    assert.equal((await post(sessionId)).status, 200);
    await transport.terminateSession();
    await client.close();
    assert.equal((await post(sessionId)).status, 404);
  });

  test('@modelcontextprotocol/client: every tool, then DELETE, then 404', async () => {
    const client = new Client({ name: 'new', version: '2.4' }, { capabilities: {} });
    const transport = new StreamableHTTPClientTransport(url);
    await client.connect(transport);
    await round((name, args = {}, onprogress) =>
      client.callTool({ name, arguments: args }, onprogress ? { onprogress } : {}),
    );
    const { structuredContent } = await client.callTool({ name: 'whoami', arguments: {} });
    assert.deepEqual(structuredContent, { name: 'new', version: '2.4', revision: '2025-11-25' });
    const sessionId = transport.sessionId ?? '';
    await transport.terminateSession();
    await client.close();
    assert.equal((await post(sessionId)).status, 404);
  });

  // The handler of `purge` is one: what differs is how the question reaches the client.
  for (const revision of ['2025-06-18', '2025-11-25', '2026-07-28']) {
    test(`@modelcontextprotocol/client: purge is asked about, and the answer heard, on ${revision}`, async () => {
      const isModern = revision === '2026-07-28';
      const speaking = isModern
        ? { versionNegotiation: { mode: { pin: revision } } }
        : { supportedProtocolVersions: [revision] };
      const capabilities = { elicitation: { form: {} } };
      const client = new Client({ name: 'new', version: '2.4' }, { capabilities, ...speaking });
      const asked: string[] = [];
      let action: 'accept' | 'decline' | 'cancel' = 'accept';
      client.setRequestHandler('elicitation/create', ({ params }) => {
        asked.push(params.message);
        return action === 'accept' ? { action, content: {} } : { action };
      });
      const posted: string[] = [];
      const watching = (at: string | URL, init?: RequestInit) => {
        if (init?.method === 'POST') posted.push(String(init.body));
        return fetch(at, init);
      };
      const transport = new StreamableHTTPClientTransport(url, { fetch: watching });
      await client.connect(transport);
      const purge = async () => textOf(await client.callTool({ name: 'purge', arguments: { name: 'cache' } }));
      assert.equal(await purge(), 'purged CACHE');
      action = 'decline';
      assert.match((await purge()) ?? '', /declined/);
      action = 'cancel';
      assert.match((await purge()) ?? '', /cancelled/);
      assert.deepEqual(asked, Array(3).fill('Purge cache?'));
      const calls = posted.map((body) => JSON.parse(body)).filter(({ method }) => method === 'tools/call');
      // Asked on the stream of the one call, or by its result, whereupon it is called again.
      assert.equal(calls.length, isModern ? 6 : 3);
      assert.equal(calls.filter(({ params }) => 'requestState' in params).length, isModern ? 3 : 0);
      assert.equal(posted.filter((body) => /"result":\{"action"/.test(body)).length, isModern ? 0 : 3);
      await transport.terminateSession();
      await client.close();
    });
  }
});
