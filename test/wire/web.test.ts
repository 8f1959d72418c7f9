import assert from 'node:assert/strict';
import test from 'node:test';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { createTransport } from '../../host/http.ts';
import { Hub } from '../../host/hub.ts';
import { Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { createHandler } from '../../host/web.ts';
import { ToolDispatch } from '../support/dispatch.ts';
import { base, errorOf, initialize, read, resultOf, rpc } from '../support/wire.ts';
import type { Answered } from '../support/wire.ts';
import type { Json } from '../../host/session.ts';

const transitions = await loadTransitions();
const endpoint = 'https://mcp.example.org/mcp';

function handler(test: { after(run: () => Promise<void>): void }, limit?: number) {
  const hub = new Hub();
  const log = () => undefined;
  const sessions = new Sessions({
    bucket: new MemoryBucket(),
    transitions,
    log,
    sessionTtl: 3_600_000,
    stateTtl: 1000,
  });
  const transport = createTransport({ dispatch: new ToolDispatch(hub), sessions, hub, log });
  const handle = createHandler(transport, limit);
  test.after(async () => {
    await transport.close(0);
    await sessions.close();
  });
  const post = async (body: Json | Uint8Array, more = {}): Promise<Answered> => {
    const content = body instanceof Uint8Array ? (body as Uint8Array<ArrayBuffer>) : JSON.stringify(body);
    return await read(
      await handle(new Request(endpoint, { method: 'POST', headers: { ...base, ...more }, body: content })),
    );
  };
  return { handle, post, hub };
}

test('row 80 row 87 a Web handler serves a whole session', async (t) => {
  const { handle, post, hub } = handler(t);
  const { headers } = await post(initialize());
  const session = { 'Mcp-Session-Id': headers.get('mcp-session-id') ?? '' };
  assert.deepEqual(resultOf((await post(rpc('ping'), session)).body), {});
  const progress = await post(rpc('tools/call', { name: 'progress' }), session);
  assert.equal(progress.messages.length, 4);
  const got = await handle(new Request(endpoint, { headers: { ...base, ...session } }));
  const reader = got.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.equal((await reader?.read())?.value, ':\n\n');
  hub.publish({ method: 'notifications/tools/list_changed' });
  assert.match((await reader?.read())?.value ?? '', /list_changed/);
  const deleted = await handle(new Request(endpoint, { method: 'DELETE', headers: session }));
  assert.equal(deleted.status, 204);
  assert.equal((await reader?.read())?.done, true);
});

test('a Web handler refuses a body that is too large or no UTF-8', async (t) => {
  const { post } = handler(t, 100);
  assert.equal((await post(rpc('ping', { filling: 'x'.repeat(200) }))).status, 413);
  const broken = await post(Uint8Array.of(0x22, 0xff, 0x22));
  assert.deepEqual([broken.status, errorOf(broken.body)['code']], [400, -32700]);
});

test('a Web handler closes a GET stream whose reader leaves', async (t) => {
  const { handle, post, hub } = handler(t);
  const { headers } = await post(initialize());
  const session = { 'Mcp-Session-Id': headers.get('mcp-session-id') ?? '' };
  const older = await handle(new Request(endpoint, { headers: { ...base, ...session } }));
  const newer = await handle(new Request(endpoint, { headers: { ...base, ...session } }));
  await newer.body?.cancel();
  hub.publish({ method: 'notifications/tools/list_changed' });
  const reader = older.body?.pipeThrough(new TextDecoderStream()).getReader();
  await reader?.read();
  assert.match((await reader?.read())?.value ?? '', /list_changed/);
  await reader?.cancel();
});
