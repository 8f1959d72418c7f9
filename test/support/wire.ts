import assert from 'node:assert/strict';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import type { TestContext } from 'node:test';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import type { AnyBucket } from '../../host/bucket/bucket.ts';
import { Hub } from '../../host/hub.ts';
import { listen } from '../../host/server.ts';
import type { Listening, ServerOptions } from '../../host/server.ts';
import { Sessions } from '../../host/session.ts';
import type { Json } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { Audit, type Event } from './audit.ts';
import { ToolDispatch } from './dispatch.ts';
import type { Tool } from './dispatch.ts';

const transitions = await loadTransitions();

export type Body = { readonly [name: string]: Json };

export interface StartOptions extends Partial<ServerOptions> {
  readonly store?: AnyBucket;
  readonly tools?: Readonly<Record<string, Tool>>;
  readonly now?: () => number;
  readonly sessionTtl?: number;
}

/** A server on a free port, and what a test looks at behind it. */
export interface Started {
  readonly server: Listening;
  readonly url: string;
  readonly bucket: AnyBucket;
  readonly sessions: Sessions;
  readonly dispatch: ToolDispatch;
  readonly hub: Hub;
  readonly events: readonly Event[];
}

/** Starts a server that ends with the test. Its whole log is looked through then. */
export async function start(test: TestContext, options: StartOptions = {}): Promise<Started> {
  const { store: bucket = new MemoryBucket(), tools, now, sessionTtl = 3_600_000, ...rest } = options;
  const audit = new Audit();
  const { events, log } = audit;
  const hub = new Hub();
  const dispatch = new ToolDispatch(hub, tools);
  const sessions = new Sessions({
    bucket: audit.watching(bucket),
    transitions,
    log,
    sessionTtl,
    stateTtl: 600_000,
    ...(now === undefined ? {} : { now }),
  });
  const server = await listen({ dispatch, sessions, hub, log, drainTimeout: 2000, ...rest });
  test.after(async () => {
    await server.close();
    await sessions.close();
    audit.check();
  });
  return { server, url: server.url, bucket, sessions, dispatch, hub, events };
}

/** An answer, read to its end. */
export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The one JSON-RPC message of it, or the last of its events. */
  readonly body: Body;
  /** All messages, of the JSON body or the events. */
  readonly messages: readonly Body[];
}

export const base = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

export function rpc(method: string, params?: Json, id: string | number = 1): Body {
  return params === undefined ? { jsonrpc: '2.0', id, method } : { jsonrpc: '2.0', id, method, params };
}

export function notification(method: string, params?: Json): Body {
  return params === undefined ? { jsonrpc: '2.0', method } : { jsonrpc: '2.0', method, params };
}

export function initialize(version = '2025-11-25', capabilities: Json = {}): Body {
  const clientInfo = { name: 'wire', version: '0.1' };
  return rpc('initialize', { protocolVersion: version, capabilities, clientInfo }, 'init');
}

/** The metadata of a 2026-07-28 request. */
export function meta(capabilities: Json = {}, more: Body = {}): Body {
  return {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'wire', version: '0.1' },
    'io.modelcontextprotocol/clientCapabilities': capabilities,
    ...more,
  };
}

/** The headers of a 2026-07-28 request. */
export function modern(method: string, name?: string): Record<string, string> {
  const headers = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': method };
  return name === undefined ? headers : { ...headers, 'Mcp-Name': name };
}

export async function send(
  url: string,
  body: Json | string | Uint8Array,
  headers: Record<string, string> = {},
  method = 'POST',
): Promise<Answered> {
  const content = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
  const bodyless = method === 'GET' || method === 'HEAD';
  const init: RequestInit = { method, headers: { ...base, ...headers }, redirect: 'manual' };
  return await read(await fetch(url, bodyless ? init : { ...init, body: content as string }));
}

export async function read(response: Response): Promise<Answered> {
  const text = await response.text();
  const { status, headers } = response;
  const streamed = headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  const parsed: unknown = streamed ? eventsIn(text) : text === '' ? [] : JSON.parse(text);
  const messages = (Array.isArray(parsed) ? parsed : [parsed]) as Body[];
  if (status >= 400) assertRefusal(headers, messages);
  return { status, headers, text, messages, body: messages.at(-1) ?? {} };
}

/** Whatever is refused is refused with a JSON-RPC error, and hands out no session id. */
function assertRefusal(headers: Headers, messages: readonly Body[]): void {
  assert.equal(headers.get('mcp-session-id'), null);
  for (const message of messages) {
    const { jsonrpc, id = 'absent', error } = message;
    assert.equal(jsonrpc, '2.0');
    assert.ok(typeof id === 'string' || Number.isInteger(id), 'the id of an error is never null');
    const { code, message: words } = error as Body;
    assert.ok(Number.isInteger(code) && typeof words === 'string');
  }
}

export function eventsIn(text: string): Body[] {
  return text
    .split('\n\n')
    .map(messageIn)
    .filter((message) => message !== undefined);
}

/** The message of an event; `undefined` for one without. */
function messageIn(event: string): Body | undefined {
  const data = fieldOf(event, 'data') ?? '';
  return data === '' ? undefined : JSON.parse(data);
}

/** A field of an event; `undefined` if the event has none of that name. */
export function fieldOf(event: string, name: string): string | undefined {
  const line = event.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2);
}

/** Begins a session. */
export async function begin(url: string, version?: string, capabilities?: Json, more = {}): Promise<string> {
  const answered = await send(url, initialize(version, capabilities), more);
  assert.equal(answered.status, 200, answered.text);
  const id = answered.headers.get('mcp-session-id');
  assert.ok(id);
  return id;
}

/** An event with its fields. */
export interface StreamEvent {
  readonly id: string | undefined;
  readonly retry: string | undefined;
  /** `undefined` if it carries none. */
  readonly message: Body | undefined;
}

function eventOf(event: string): StreamEvent {
  return { id: fieldOf(event, 'id'), retry: fieldOf(event, 'retry'), message: messageIn(event) };
}

/** A stream that a test reads event by event. */
export class Events {
  readonly response: Response;
  readonly #reader: ReadableStreamDefaultReader<string>;
  readonly #abort: AbortController;
  #text = '';

  constructor(response: Response, abort: AbortController) {
    this.response = response;
    this.#abort = abort;
    assert.ok(response.body);
    this.#reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  }

  static async open(
    url: string,
    headers: Record<string, string> = {},
    body?: Json,
    method = body === undefined ? 'GET' : 'POST',
  ): Promise<Events> {
    const abort = new AbortController();
    const init = { method, headers: { ...base, ...headers }, signal: abort.signal };
    return new Events(await fetch(url, body === undefined ? init : { ...init, body: JSON.stringify(body) }), abort);
  }

  /** The next event or comment as text; `undefined` at the end. */
  async raw(): Promise<string | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\n\n');
      if (end !== -1) {
        const event = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return event;
      }
      const { value, done } = await this.#reader.read();
      if (done) return undefined;
      this.#text += value;
    }
  }

  /** The next event that is no comment; `undefined` at the end. */
  async event(): Promise<StreamEvent | undefined> {
    for (;;) {
      const event = await this.raw();
      if (event === undefined) return undefined;
      if (!event.startsWith(':')) return eventOf(event);
    }
  }

  /** All events up to the end. */
  async rest(): Promise<StreamEvent[]> {
    const events: StreamEvent[] = [];
    for (let event = await this.event(); event !== undefined; event = await this.event()) events.push(event);
    return events;
  }

  /** The next message; `undefined` at the end. */
  async next(): Promise<Body | undefined> {
    for (;;) {
      const event = await this.raw();
      if (event === undefined) return undefined;
      const message = messageIn(event);
      if (message !== undefined) return message;
    }
  }

  /** Goes away as a client does. */
  leave(): void {
    this.#abort.abort();
    this.#reader.closed.catch(() => undefined);
  }
}

/** Sends bytes over a socket of its own and returns all that comes back until the server closes. */
export async function exchange(port: number, bytes: string | Uint8Array): Promise<string> {
  const socket = await open(port);
  socket.end(bytes);
  let text = '';
  for await (const chunk of socket.setEncoding('latin1')) text += chunk;
  return text;
}

export async function open(port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
  return socket;
}

export function errorOf(body: Body): Body {
  return body['error'] as Body;
}

export function resultOf(body: Body): Body {
  return body['result'] as Body;
}

/** The number of keys in a bucket. */
export async function keysIn(bucket: AnyBucket): Promise<number> {
  let count = 0;
  let cursor: string | undefined;
  do {
    const page = await bucket.list(cursor);
    count += page.keys.length;
    cursor = page.cursor;
  } while (cursor !== undefined);
  return count;
}
