import assert from 'node:assert/strict';
import test from 'node:test';
import { EventStream } from '../../host/sse.ts';
import type { Sink } from '../../host/sse.ts';

/** A reader that takes as much as it is told to. */
class Reader implements Sink {
  taken = '';
  takes = true;
  ended: boolean | undefined;

  write(text: string): boolean {
    this.taken += text;
    return this.takes;
  }

  end(complete: boolean): void {
    assert.equal(this.ended, undefined, 'a stream ends once');
    this.ended = complete;
  }
}

test('what is written before anybody reads is kept, in order', () => {
  const stream = new EventStream();
  stream.send('1');
  stream.send('2');
  stream.end();
  const reader = new Reader();
  stream.attach(reader);
  assert.equal(reader.taken, 'data: 1\n\ndata: 2\n\n');
  assert.equal(reader.ended, true);
});

test('a slow reader gets the rest when it pulls', () => {
  const stream = new EventStream();
  const reader = new Reader();
  stream.attach(reader);
  reader.takes = false;
  stream.send('1');
  stream.send('2');
  stream.comment();
  stream.end();
  assert.deepEqual([reader.taken, reader.ended], ['data: 1\n\n', undefined]);
  stream.pull();
  assert.deepEqual([reader.taken, reader.ended], ['data: 1\n\ndata: 2\n\n', true]);
});

test('beyond its limit the backlog is dropped and the stream is cut', () => {
  const stream = new EventStream(20);
  const reader = new Reader();
  let closed = 0;
  stream.onClose(() => (closed += 1));
  stream.attach(reader);
  reader.takes = false;
  assert.equal(stream.send('1'), true);
  assert.equal(stream.send('a single one may be as large as it is'), true);
  assert.equal(stream.send('2'), false);
  assert.deepEqual([stream.closed, closed, reader.ended], [true, 1, false]);
  assert.equal(stream.send('3'), false);
  stream.end();
  stream.cancel();
  assert.deepEqual([closed, reader.taken], [1, 'data: 1\n\n']);
});

test('a stream whose reader has gone takes nothing more and says so once', () => {
  const stream = new EventStream();
  const reader = new Reader();
  let closed = 0;
  stream.onClose(() => (closed += 1));
  stream.attach(reader);
  stream.cancel();
  stream.cancel();
  assert.equal(stream.send('1'), false);
  assert.deepEqual([closed, reader.taken, reader.ended], [1, '', undefined]);
  stream.onClose(() => (closed += 1));
  assert.equal(closed, 2);
});
