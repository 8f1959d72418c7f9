import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { instantiate } from '../../host/component.ts';
import { loadTransitions, Refusal, type View } from '../../host/transitions.ts';

/** What version 1 wrote. Never changed: what is stored out there is not changed either. */
const sample: { now: number; entries: Record<string, string> } = JSON.parse(
  readFileSync(new URL('stored/v1.json', import.meta.url), 'utf8'),
);

function bucketOf(): MemoryBucket {
  const bucket = new MemoryBucket();
  for (const [key, value] of Object.entries(sample.entries)) bucket.set(key, Buffer.from(value, 'base64'));
  return bucket;
}

const refusedAs = (tag: string) => (error: unknown) => error instanceof Refusal && error.tag === tag;

for (const build of ['quickjs', 'starlingmonkey'] as const) {
  describe(`what version 1 stored, read by ${build}`, async () => {
    const transitions = await loadTransitions({ build });
    const records = Object.keys(sample.entries).flatMap((key) => {
      const meaning = transitions.readKey(key);
      return meaning?.tag === 'of-record' ? [{ key, ...meaning.val }] : [];
    });
    const contentOf = (of: { key: string }) => Buffer.from(sample.entries[of.key] ?? '', 'base64').toString();
    const find = (kind: string, namespace: string) => {
      const record = records.find((one) => one.kind === kind && one.namespace === namespace);
      assert.ok(record !== undefined);
      return record;
    };

    test('its keys mean what they meant', () => {
      assert.equal(records.length, 5);
      for (const { key, kind, namespace, id } of records) assert.equal(transitions.recordKey(kind, namespace, id), key);
      const apart = Object.keys(sample.entries).filter((key) => transitions.readKey(key)?.tag === 'of-value');
      assert.equal(apart.length, 1);
      const [key = ''] = apart;
      assert.deepEqual(transitions.readKey(key), { tag: 'of-value', val: find('session', '').key });
      assert.equal(transitions.orphaned(key, contentOf(find('session', '')), sample.now + 10 ** 9), false);
      assert.equal(transitions.readKey('somebody else'), undefined);
    });

    test('a session with values, notes and an answer', () => {
      const view: View = transitions.inspect(contentOf(find('session', '')), sample.now, 0, undefined);
      const values = JSON.parse(view.values);
      assert.equal(values.text, 'héllo');
      assert.deepEqual(Buffer.from(values.bytes.base64, 'base64url'), Buffer.of(0, 255, 195));
      assert.equal(values.large.size, 5000);
      assert.equal(Buffer.from(sample.entries[values.large.at] ?? '', 'base64').length, 5000);
      assert.equal(Object.getOwnPropertyDescriptor(values, '__proto__')?.value, '1');
      assert.deepEqual(JSON.parse(view.attributes), { revision: '2025-11-25' });
      const question = JSON.parse(view.questions)['question-0123456789'];
      assert.deepEqual(question.answer, { result: { action: 'accept', content: {} } });
    });

    test('a terminated session of an owner in a namespace', () => {
      const content = contentOf(find('session', 'a/ü'));
      const view = transitions.inspect(content, sample.now, 0, 'issuer|ann');
      assert.equal(view.terminated, true);
      assert.equal(view.reason, 'over');
      assert.throws(() => transitions.inspect(content, sample.now, 0, undefined), refusedAs('foreign'));
    });

    test('a handle, a redeemed request state and a tombstone', () => {
      assert.equal(JSON.parse(transitions.examine(contentOf(find('handle', ''))).values).n, '7');
      const { key } = find('request-state', '');
      const redeem = { tag: 'redeem', val: 'call' } as const;
      const again = () => transitions.apply(key, contentOf({ key }), sample.now, 0, undefined, [redeem], 'n');
      assert.throws(again, refusedAs('redeemed'));
      const grave = 'mcp-session/1/s//AAAAAAAAAAAAAAAAAAAAAA';
      assert.throws(() => transitions.examine(contentOf({ key: grave })), refusedAs('deleted'));
      assert.deepEqual(transitions.sweep(grave, contentOf({ key: grave }), sample.now)?.after, [grave]);
    });

    test('a record of a later version, or none at all, is refused and not swept', () => {
      const { key } = find('handle', '');
      for (const content of ['{"v":2}', '{"v":1}', '{', '[]', 'null', '{"v":1,"id":"日本語']) {
        assert.throws(() => transitions.examine(content), refusedAs('unreadable'), content);
        assert.throws(() => transitions.sweep(key, content, Number.MAX_SAFE_INTEGER), refusedAs('unreadable'));
      }
    });
  });
}

test('the session resource opens what version 1 stored, and deletes all of it', async () => {
  const bucket = bucketOf();
  const component = await instantiate({ now: () => sample.now });
  const key = Object.keys(sample.entries).find(
    (one) => one.startsWith('mcp-session/1/s//') && !one.endsWith('AAAAAAAA'),
  );
  const id = key?.split('/').at(-1) ?? '';
  const session = component.sessions.Session.open(component.bucket(bucket), id);
  assert.equal(Buffer.from(session.get('text') ?? '').toString(), 'héllo');
  assert.equal(session.get('large')?.length, 5000);
  const before = bucket.list().keys.length;
  component.sessions.Session.delete(session);
  assert.equal(bucket.list().keys.length, before - 2);
});
