import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import demo from '../host/demo.ts';
import { serve } from '../host/library.ts';

const run = promisify(execFile);
const readme = await readFile('README.md', 'utf8');
// Inside the package, so that its own name is resolved as its users resolve it.
const folder = resolve('.cache/readme');

function blocks(language: string): string[] {
  return Array.from(
    readme.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm')),
    ([, text]) => text ?? '',
  );
}

function block(language: string, holding: string): string {
  const found = blocks(language).filter((text) => text.includes(holding));
  assert.equal(found.length, 1, `one block that holds ${holding}`);
  return found[0] ?? '';
}

async function program(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  const { stdout } = await run(process.execPath, [path], { cwd: folder });
  return stdout;
}

describe('row 89 what the README shows', () => {
  before(() => mkdir(folder, { recursive: true }));
  after(() => rm(folder, { recursive: true }));

  test('a session in curl prints what it says', async () => {
    const server = await serve(demo, { bucket: 'memory:', port: 0 });
    try {
      const script = block('sh', 'Mcp-Session-Id').replace('http://127.0.0.1:3000/mcp', server.url);
      const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script]);
      assert.equal(stdout, block('text', '"id":2'));
    } finally {
      await server.close();
    }
  });

  test('the library serves', async () => {
    assert.match(await program('library.ts', block('ts', 'new Registry')), /^http:\/\/127\.0\.0\.1:\d+\/mcp\n$/);
  });

  for (const revision of [undefined, '2025-06-18', '2025-11-25', '2026-07-28']) {
    test(`the client is asked, and answers, on ${revision ?? 'the newest revision'}`, async () => {
      const server = await serve(demo, { bucket: 'memory:', port: 0 });
      try {
        const spoken = revision === undefined ? '' : `revision: '${revision}',`;
        const text = block('ts', 'mcp-session/client')
          .replace('http://127.0.0.1:3000/mcp', server.url)
          .replace("name: 'guest',", `$& ${spoken}`);
        assert.equal(await program('client.ts', text), "{ type: 'text', text: 'purged CACHE' }\n");
      } finally {
        await server.close();
      }
    });
  }

  test('the component keeps a value', async () => {
    assert.match(await program('component.ts', block('ts', 'mcp-session/component')), /^[\w-]{22,} hello\n$/);
  });

  test('the bucket contract runs', async () => {
    const lines = (await program('contract.ts', block('ts', 'bucketContract'))).trim().split('\n');
    assert.ok(lines.length > 20);
    for (const line of lines) assert.match(line, /^ok /);
  });

  test('the commands are those of package.json', async () => {
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8'));
    for (const name of ['start', 'test', 'bench', 'soak']) {
      assert.ok(name in scripts);
      assert.match(readme, new RegExp(`npm (run )?${name}`));
    }
    for (const [, path = ''] of readme.matchAll(/\]\(([^h)][^)]*)\)/g))
      await readFile(path).catch((error) => {
        if (error.code !== 'EISDIR') throw error;
      });
  });
});
