import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const bin = join(root, 'host', 'bin.mjs');

/** A folder that is removed when the tests of the file are done. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-session-cli-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const started = new Set<ChildProcess>();

// A test that failed leaves its server behind, which would keep this process alive.
after(() => {
  for (const child of started) child.kill('SIGKILL');
});

/** Starts the command line; ended with the tests of the file at the latest. */
export function start(args: readonly string[]) {
  const child = spawn(process.execPath, args, { cwd: root });
  started.add(child);
  return child;
}

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export function run(args: readonly string[], cwd = root): Promise<Ran> {
  return new Promise((done) => {
    const child = execFile(process.execPath, [bin, ...args], { cwd, timeout: 30_000 }, (_, out, err) => {
      done({ code: child.exitCode, out, err });
    });
  });
}

/** Runs each case, a few at a time, so that a long table stays quick. */
export async function eachOf<T>(cases: readonly T[], check: (one: T) => Promise<void>): Promise<void> {
  const left = [...cases];
  const worker = async (): Promise<void> => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await check(one);
  };
  await Promise.all([worker(), worker(), worker()]);
}

/** `mcp-session serve` on a free port. */
export class Served {
  readonly child: ChildProcess;
  readonly exit: Promise<unknown[]>;
  out = '';
  log = '';

  constructor(args: readonly string[]) {
    this.child = start([bin, 'serve', '--port', '0', ...args]);
    this.exit = once(this.child, 'exit');
    this.child.stdout?.setEncoding('utf8').on('data', (part) => {
      this.out += part;
    });
    this.child.stderr?.setEncoding('utf8').on('data', (part) => {
      this.log += part;
    });
  }

  static async start(...args: readonly string[]): Promise<Served> {
    const served = new Served(args);
    const { stdout } = served.child;
    assert.ok(stdout);
    await Promise.race([once(stdout, 'data'), served.exit]);
    assert.equal(served.child.exitCode, null, served.log);
    return served;
  }

  get url(): string {
    return this.out.replace('listening on ', '').trim();
  }

  /** The log, as `--log-format json` writes it. */
  get events(): Record<string, unknown>[] {
    const lines = this.log.split('\n').slice(0, -1);
    return lines.map((line) => JSON.parse(line));
  }

  /** The exit status after that signal. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<unknown> {
    this.child.kill(signal);
    const [status] = await this.exit;
    return status;
  }

  /** Resolves when the log has that text. */
  async logged(text: string): Promise<void> {
    const { stderr } = this.child;
    assert.ok(stderr);
    while (!this.log.includes(text)) await once(stderr, 'data');
  }
}

const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

function post(url: string, id: string | undefined, method: string, params: object): Promise<Response> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  return fetch(url, { method: 'POST', headers: { ...headers, ...(id && { 'Mcp-Session-Id': id }) }, body });
}

/** Begins a session and answers with its id. */
export async function initialize(url: string): Promise<string> {
  const clientInfo = { name: 'test', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
  const response = await post(url, undefined, 'initialize', params);
  assert.equal(response.status, 200);
  await response.text();
  return response.headers.get('mcp-session-id') ?? '';
}

export function callTool(url: string, id: string, name: string, args: object = {}): Promise<Response> {
  return post(url, id, 'tools/call', { name, arguments: args });
}

/** The text a tool answers with. */
export async function call(url: string, id: string, name: string, args: object = {}): Promise<string> {
  const response = await callTool(url, id, name, args);
  assert.equal(response.status, 200);
  const { result } = (await response.json()) as { result: { content: { text: string }[] } };
  return result.content[0]?.text ?? '';
}
