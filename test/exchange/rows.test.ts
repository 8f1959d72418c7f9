import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { faults, findings, type Row, rows } from './rows.ts';

const root = new URL('..', import.meta.url);
const files = globSync('**/*.test.ts', { cwd: root });
const titles = files.flatMap((file) => titlesIn(readFileSync(new URL(file, root), 'utf8')));

/** What the tests of a file are called: the first argument of `test` and `describe`, and `name` in tables of cases. */
function titlesIn(source: string): string[] {
  const calls = source.matchAll(/\b(?:test|describe)\(\s*(['"`])(.+?)\1\s*,|\bname: (['"])(.+?)\3/g);
  return [...calls].map(([, , title, , name]) => title ?? name ?? '');
}

function idsIn(kind: string): Set<string> {
  const named = titles.flatMap((title) => [...title.matchAll(/\b(row|finding|fault) \d+\b/g)].map(([id]) => id));
  return new Set(named.filter((id) => id.startsWith(`${kind} `)));
}

function check(kind: string, table: readonly Row[]): void {
  const named = idsIn(kind);
  const missing = table.filter(({ id, untested }) => untested === undefined && !named.has(id));
  assert.deepEqual(missing, [], 'promised, not excused, and in no name of a test');
  assert.equal(new Set(table.map(({ id }) => id)).size, table.length);
}

describe('of what is promised, row by row,', () => {
  test('every row is in the name of a test, or says why it is not', () => {
    check('row', rows);
    assert.equal(rows.length, 91);
    const known = new Set(rows.map(({ id }) => id));
    assert.deepEqual(
      [...idsIn('row')].filter((id) => !known.has(id)),
      [],
    );
  });

  test('every fault that was found elsewhere is in the name of a test', () => {
    check('finding', findings);
    check('fault', faults);
  });
});
