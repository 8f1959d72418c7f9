import { connect, type Socket } from 'node:net';

/** What a server answered. */
export interface Answered {
  readonly status: number;
  readonly head: string;
  readonly body: string;
}

type Waiting = { readonly resolve: (answered: Answered) => void; readonly reject: (error: Error) => void };

/** One keep-alive connection that has one request under way at a time. It costs less than any HTTP client. */
export class Connection {
  readonly #socket: Socket;
  #text = '';
  #waiting: Waiting | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true).setEncoding('latin1');
    socket.on('data', (chunk: string) => this.#receive(chunk));
    socket.on('error', (error) => this.#fail(error));
    socket.on('close', () => this.#fail(new Error('the server closed the connection')));
  }

  static open(port: number): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(new Connection(socket)));
      socket.once('error', reject);
    });
  }

  call(request: Buffer): Promise<Answered> {
    return new Promise((resolve, reject) => {
      if (this.#socket.destroyed) return reject(new Error('the connection is closed'));
      this.#waiting = { resolve, reject };
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: string): void {
    this.#text += chunk;
    const end = this.#text.indexOf('\r\n\r\n');
    if (end === -1) return;
    const head = this.#text.slice(0, end);
    const body = this.#text.slice(end + 4);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    const isWhole = length === undefined ? /(^|\r\n)0\r\n\r\n$/.test(body) : body.length >= Number(length);
    if (!isWhole && !head.startsWith('HTTP/1.1 204')) return;
    this.#text = '';
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve({ status: Number(head.slice(9, 12)), head, body });
  }

  #fail(error: Error): void {
    this.#waiting?.reject(error);
    this.#waiting = undefined;
  }
}

/** The bytes of a request. */
export function encode(headers: Readonly<Record<string, string>>, body: object | undefined, method = 'POST'): Buffer {
  const content = body === undefined ? '' : JSON.stringify(body);
  const all = {
    Host: '127.0.0.1',
    'Content-Type': 'application/json',
    Accept: 'application/json, text/event-stream',
    'Content-Length': String(Buffer.byteLength(content)),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} /mcp HTTP/1.1\r\n${lines.join('')}\r\n${content}`);
}

const client = { name: 'bench', version: '0.1' };

export const initialize = encode(
  {},
  {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: { elicitation: {} }, clientInfo: client },
  },
);

/** Begins a session; its id. */
export async function begin(connection: Connection): Promise<string> {
  const { head, body } = await connection.call(initialize);
  const id = /\r\nmcp-session-id: *([^\r\n]+)/i.exec(head)?.[1];
  if (id === undefined) throw new Error(`no session was begun: ${head}\n\n${body}`);
  await connection.call(inSession(id, { jsonrpc: '2.0', method: 'notifications/initialized' }));
  return id;
}

/** A message in a session. */
export function inSession(id: string, message: object | undefined, method = 'POST'): Buffer {
  return encode({ 'Mcp-Session-Id': id, 'MCP-Protocol-Version': '2025-11-25' }, message, method);
}

/** A call of a tool in a session. */
export function callIn(id: string, name: string, args: object = {}): Buffer {
  return inSession(id, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } });
}

/** A call of a tool by 2026-07-28. `more` are further params. */
export function callModern(name: string, args: object = {}, more: object = {}): Buffer {
  const version = '2026-07-28';
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientInfo': client,
    'io.modelcontextprotocol/clientCapabilities': { elicitation: {} },
  };
  return encode(
    { 'MCP-Protocol-Version': version, 'Mcp-Method': 'tools/call', 'Mcp-Name': name },
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args, _meta: meta, ...more } },
  );
}

/** Whether a call had the result it was made for. */
export function isGood({ status, body }: Answered): boolean {
  return status === 200 && body.includes('"result"') && !body.includes('"isError":true');
}

/** The counter that `bump` or `count` answered with. */
export function counterOf({ body }: Answered): number {
  return Number(/"n":(\d+)/.exec(body)?.[1] ?? /"text":"(\d+)"/.exec(body)?.[1]);
}
