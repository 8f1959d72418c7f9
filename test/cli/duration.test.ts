import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatDuration, longestDuration, parseDuration } from '../../host/duration.ts';

const day = 86_400_000;

test('a time is a number and a unit', () => {
  const right: [string, number][] = [
    ['1ms', 1],
    ['500ms', 500],
    ['90s', 90_000],
    ['10m', 600_000],
    ['1h', 3_600_000],
    ['1.5h', 5_400_000],
    ['0.5ms', 1],
    ['25d', 25 * day],
    ['30d', 30 * day],
    ['400d', 400 * day],
    ['3650d', 3650 * day],
  ];
  for (const [text, milliseconds] of right) assert.equal(parseDuration(text), milliseconds, text);
});

test('nothing, less than nothing, no number, no unit and more than ten years are no time', () => {
  const wrong = '0 0s 0ms 0.0h -1 -1s +1s abc NaN NaNs Infinity 1e3s 1e20 60 .5s 1. 1.s 1,5h 1y 3651d 3650.1d 1h1m';
  for (const text of [...wrong.split(' '), '', ' 1s', '1s ', '1 s', '1s\n', '١s', '9'.repeat(400)]) {
    assert.equal(parseDuration(text), undefined, text);
  }
});

test('a time is said in the largest unit that fits, and read back', () => {
  const said = new Map([
    [1, '1ms'],
    [1500, '1500ms'],
    [90_000, '90s'],
    [600_000, '10m'],
    [3_600_000, '1h'],
    [30 * day, '30d'],
    [longestDuration, '3650d'],
  ]);
  for (const [milliseconds, text] of said) {
    assert.equal(formatDuration(milliseconds), text);
    assert.equal(parseDuration(text), milliseconds);
  }
});
