import assert from 'node:assert/strict';
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SqliteBucket } from '../../host/bucket/sqlite.ts';
import type { Json } from '../../host/session.ts';
import { type Body, initialize, keysIn, meta, notification, resultOf, rpc } from '../support/wire.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
export const app = fileURLToPath(new URL('app.ts', import.meta.url));

export interface TalkOptions {
  readonly app?: string;
  readonly args?: readonly string[];
}

/** `mcp-session serve --stdio` as a process, spoken to line by line. */
export class Talk {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly exit: Promise<unknown[]>;
  readonly path: string;
  /** Everything that came on stdout. */
  out = '';
  log = '';
  readonly #lines: Body[] = [];
  #rest = '';
  #heard = Promise.withResolvers<void>();

  constructor(test: TestContext, { app: served = app, args = [] }: TalkOptions = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'mcp-session-stdio-'));
    this.path = join(folder, 'sessions.db');
    const flags = ['serve', served, '--stdio', '--bucket', `sqlite:${this.path}`, ...args];
    this.child = spawn(process.execPath, [join(root, 'host/bin.mjs'), ...flags], { stdio: ['pipe', 'pipe', 'pipe'] });
    this.exit = once(this.child, 'exit');
    this.child.stdin.on('error', () => undefined);
    this.child.stdout.setEncoding('utf8').on('data', (text) => this.#hear(text));
    this.child.stdout.on('end', () => this.#hear(''));
    this.child.stderr.setEncoding('utf8').on('data', (text) => {
      this.log += text;
    });
    test.after(() => {
      this.child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    });
  }

  /** A talk after its handshake. */
  static async begin(
    test: TestContext,
    version: string,
    capabilities: Json = {},
    options?: TalkOptions,
  ): Promise<Talk> {
    const talk = new Talk(test, options);
    const { result } = await talk.ask(initialize(version, capabilities));
    assert.equal((result as Body)['protocolVersion'], version);
    talk.send(notification('notifications/initialized'));
    return talk;
  }

  write(text: string | Uint8Array): void {
    this.child.stdin.write(text);
  }

  send(message: Json): void {
    this.write(`${JSON.stringify(message)}\n`);
  }

  /** The next message. */
  async next(): Promise<Body> {
    for (;;) {
      const message = this.#lines.shift();
      if (message !== undefined) return message;
      if (this.child.stdout.readableEnded) throw new Error(`it ended: ${this.log}`);
      await this.#heard.promise;
    }
  }

  /** Sends a request; resolves with its response. What came before it is lost. */
  async ask(request: Body): Promise<Body> {
    this.send(request);
    return this.response(request['id']);
  }

  async response(id: Json | undefined): Promise<Body> {
    for (;;) {
      const message = await this.next();
      if (message['id'] === id && message['method'] === undefined) return message;
    }
  }

  /** The next message of that method. */
  async method(method: string): Promise<Body> {
    for (;;) {
      const message = await this.next();
      if (message['method'] === method) return message;
    }
  }

  /** Calls a tool; resolves with its result. */
  async call(name: string, args: Json = {}, id: string | number = name): Promise<Body> {
    return resultOf(await this.ask(callOf(name, args, id)));
  }

  /** Calls a tool by the rules of 2026-07-28; resolves with its result. */
  async callModern(name: string, args: Json = {}, id: string | number = name): Promise<Body> {
    return resultOf(await this.ask(modernCall(name, args, id)));
  }

  /** Resolves when stderr has that text. */
  async logged(text: string): Promise<void> {
    while (!this.log.includes(text)) await once(this.child.stderr, 'data');
  }

  /** Ends its input; resolves with the exit status. */
  async end(): Promise<unknown> {
    this.child.stdin.end();
    return (await this.exit)[0];
  }

  /** What is left to read when the process has ended. */
  async rest(): Promise<Body[]> {
    if (!this.child.stdout.readableEnded) await once(this.child.stdout, 'end');
    return this.#lines.splice(0);
  }

  /** How many keys its bucket holds. */
  async keys(): Promise<number> {
    const bucket = new SqliteBucket(this.path);
    try {
      return await keysIn(bucket);
    } finally {
      await bucket.close();
    }
  }

  #hear(text: string): void {
    this.out += text;
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    // Whatever is no JSON fails the test: nothing else belongs on stdout.
    for (const line of lines) this.#lines.push(JSON.parse(line));
    this.#heard.resolve();
    this.#heard = Promise.withResolvers();
  }
}

export function callOf(name: string, args: Json = {}, id: string | number = name, more: Body = {}): Body {
  return rpc('tools/call', { name, arguments: args, ...more }, id);
}

export function modernCall(name: string, args: Json = {}, id: string | number = name, more: Body = {}): Body {
  return callOf(name, args, id, { _meta: meta(), ...more });
}

export function textOf(result: Body): string {
  return (result['content'] as Body[])[0]?.['text'] as string;
}
