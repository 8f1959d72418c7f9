import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';

const run = promisify(execFile);
const pages = 'host/docs';
// Inside the package, so that its own name is resolved as its users resolve it.
const folder = resolve('.cache/docs');
// What a console of another width or with colours would show differently.
const env = { ...process.env, NO_COLOR: '1', COLUMNS: '120' };

interface Example {
  readonly title: string;
  readonly file: string;
  readonly program: string;
  readonly printed: string;
}

/** The programs of a page, each with the heading above it and the output below it. */
function examplesIn(page: string, text: string): Example[] {
  const pattern = /^## (.*)$|^```ts\n([\s\S]*?)^```\n\n```text\n([\s\S]*?)^```$/gm;
  const examples: Example[] = [];
  let title = page;
  for (const [, heading, program, printed = ''] of text.matchAll(pattern)) {
    if (heading !== undefined) title = heading;
    if (program === undefined) continue;
    const file = join(folder, `${page.replace('.md', '')}-${examples.length + 1}.ts`);
    examples.push({ title: `${page}: ${title}`, file, program, printed });
  }
  assert.equal(examples.length, text.split('```ts\n').length - 1, `each program of ${page} is followed by its output`);
  return examples;
}

const names = (await readdir(pages)).sort();
const examples = await Promise.all(
  names.map(async (page) => examplesIn(page, await readFile(join(pages, page), 'utf8'))),
);

describe('row 89 every example of the documentation', () => {
  before(async () => {
    await mkdir(folder, { recursive: true });
    for (const { file, program } of examples.flat()) await writeFile(file, program);
  });
  after(() => rm(folder, { recursive: true }));

  for (const { title, file, printed } of examples.flat()) {
    test(`prints what the page says: ${title}`, async () => {
      const { stdout } = await run(process.execPath, [file], { cwd: folder, env, timeout: 60_000 });
      assert.equal(stdout, printed);
    });
  }

  test('is typed', async () => {
    const flags = ['--noEmit', '--strict', '--noUncheckedIndexedAccess', '--skipLibCheck', '--types', 'node'];
    const modern = ['--module', 'nodenext', '--target', 'esnext', '--ignoreConfig'];
    const tsc = resolve('node_modules/.bin/tsc');
    const files = examples.flat().map(({ file }) => file);
    await run(tsc, [...flags, ...modern, ...files], { cwd: folder }).catch(({ stdout }) => assert.fail(stdout));
  });
});
