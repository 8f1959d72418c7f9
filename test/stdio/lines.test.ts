import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { errorOf, meta, rpc } from '../support/wire.ts';
import { Talk, textOf } from './talk.ts';

const ping = JSON.stringify(rpc('tools/call', { name: 'echo', arguments: { text: 'here' }, _meta: meta() }, 'after'));
const limit = 4 * 1024 * 1024;

/** Bytes that are no message, and the code and words of the answer. */
const malformed: readonly [what: string, bytes: string | Uint8Array, code: number, words: RegExp][] = [
  ['no JSON', 'nonsense', -32700, /not JSON/],
  ['half a message', ping.slice(0, 40), -32700, /not JSON/],
  ['two messages on one line', ping + ping, -32700, /not JSON/],
  ['invalid UTF-8', Uint8Array.of(0x22, 0xc3, 0x28, 0x22), -32700, /not UTF-8/],
  ['UTF-16', Buffer.from(ping, 'utf16le'), -32700, /not JSON/],
  ['a number', '1', -32600, /not a JSON object/],
  ['no version of JSON-RPC', '{"id":1,"method":"ping"}', -32600, /`jsonrpc` is not "2.0"/],
  ['a null id', '{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, /`id` is neither a string nor an integer/],
  ['an empty batch', '[]', -32600, /The batch is empty/],
  ['a batch outside 2025-03-26', `[${ping}]`, -32600, /must hold a single message/],
  ['a line larger than the limit', `"${'x'.repeat(limit)}"`, -32600, /The line is larger than 4194304 bytes/],
];

describe('a line over stdio', () => {
  test('that is malformed is answered without an id, or with the one it has, and the next one is served', async (t) => {
    const talk = new Talk(t);
    for (const [what, bytes, code, words] of malformed) {
      talk.write(bytes);
      talk.write(`\n${ping}\n`);
      const refused = await talk.next();
      assert.deepEqual(
        Object.keys(refused).filter((name) => name !== 'id'),
        ['jsonrpc', 'error'],
        what,
      );
      assert.notEqual(refused['id'], null, what);
      assert.equal(errorOf(refused)['code'], code, what);
      assert.match(String(errorOf(refused)['message']), words, what);
      assert.equal((await talk.next())['id'], 'after', what);
    }
    assert.equal(await talk.end(), 0);
  });

  test('that is malformed and has an id is answered under it', async (t) => {
    const talk = new Talk(t);
    talk.write('{"jsonrpc":"2.0","id":"mine","method":"ping","params":[]}\n');
    const refused = await talk.next();
    assert.equal(refused['id'], 'mine');
    assert.match(String(errorOf(refused)['message']), /`params` is not an object/);
  });

  test('may end in CRLF, may be blank, and may come in any pieces', async (t) => {
    const talk = new Talk(t);
    talk.write(`\r\n \n\n${ping}\r\n`);
    assert.equal((await talk.next())['id'], 'after');
    const text = 'ä€😀';
    const bytes = Buffer.from(`${ping.replace('here', text)}\n`);
    for (const byte of bytes) {
      talk.write(Uint8Array.of(byte));
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(textOf((await talk.next())['result'] as never), text);
    talk.write(`${ping}\n${ping.replace('after', 'third')}\n`);
    assert.deepEqual([(await talk.next())['id'], (await talk.next())['id']], ['after', 'third']);
  });

  test('needs no end if it is the last', async (t) => {
    const talk = new Talk(t);
    talk.write(ping);
    assert.equal(await talk.end(), 0);
    assert.deepEqual(
      (await talk.rest()).map(({ id }) => id),
      ['after'],
    );
  });

  test('that was begun when the input ended is answered as what it is', async (t) => {
    const talk = new Talk(t);
    talk.write(ping.slice(0, -1));
    assert.equal(await talk.end(), 0);
    const [refused, ...more] = await talk.rest();
    assert.equal(errorOf(refused ?? {})['code'], -32700);
    assert.deepEqual(more, []);
  });

  test('that never ends is refused before it does, and takes no memory', async (t) => {
    const talk = new Talk(t);
    const before = Number(textOf(await talk.callModern('memory')));
    const part = Buffer.alloc(limit, 0x20);
    for (let sent = 0; sent < 64; sent++) {
      if (!talk.child.stdin.write(part)) await once(talk.child.stdin, 'drain');
    }
    assert.match(String(errorOf(await talk.next())['message']), /larger than/);
    talk.write('\n');
    const after = Number(textOf(await talk.callModern('memory')));
    // Half of what was sent: the collector takes its time.
    assert.ok(after - before < 32 * limit, `${after} after ${before}`);
  });

  test('holds no character that some readers take for its end', async (t) => {
    const talk = new Talk(t);
    const text = 'a\u2028b\u2029c\u0085d\ne\rf';
    assert.equal(textOf(await talk.callModern('echo', { text })), text);
    assert.match(talk.out, /^[^\u2028\u2029\u0085\r]*$/);
  });

  test('is all that is on stdout, whatever the app prints; that goes to stderr, as the log does', async (t) => {
    const talk = await Talk.begin(t, '2025-11-25');
    assert.equal(textOf(await talk.call('print')), 'printed');
    await talk.end();
    await talk.rest();
    const lines = talk.out.trimEnd().split('\n');
    assert.deepEqual(
      lines.map((line) => JSON.parse(line).id),
      ['init', 'print'],
    );
    const printed = ['printed while it is loaded', 'written while it is loaded', 'printed by a handler'];
    for (const text of [...printed, "{ printed: 'by a handler' }", 'written by a handler', 'session created']) {
      assert.ok(talk.log.includes(text), text);
    }
  });
});
