import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { serve } from '../../host/library.ts';
import app from './app.ts';

/** The port of the server that `kind` names: `bare`, `sdk-sse`, `sdk-json`, or the URL of a bucket for ours. */
async function start(kind: string): Promise<number> {
  if (kind === 'bare') return listen(bare());
  if (kind === 'sdk-sse') return listen(official(false));
  if (kind === 'sdk-json') return listen(official(true));
  return (await serve(app, { port: 0, bucket: kind })).port;
}

function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener);
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port));
  });
}

async function read(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const text = Buffer.concat(chunks).toString();
  return text === '' ? undefined : JSON.parse(text);
}

/** The least that an HTTP server in Node can do: JSON in, JSON out. */
function bare(): RequestListener {
  return (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { id, method } = JSON.parse(Buffer.concat(chunks).toString());
      const result = { content: [{ type: 'text', text: '1' }], method };
      const body = JSON.stringify({ jsonrpc: '2.0', id, result });
      response.setHeader('Mcp-Session-Id', 'echo');
      response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
      response.end(body);
    });
  };
}

/** The server that the official SDK's documentation shows: a map of sessions, each with a server and a transport. */
function official(enableJsonResponse: boolean): RequestListener {
  const transports = new Map<string, StreamableHTTPServerTransport>();
  const counters = new Map<string, number>();
  const begin = async () => {
    const server = new McpServer({ name: 'official', version: '1.0.0' });
    server.registerTool('bump', { description: 'Adds one to the counter of this session.' }, ({ sessionId = '' }) => {
      const n = (counters.get(sessionId) ?? 0) + 1;
      counters.set(sessionId, n);
      return { content: [{ type: 'text', text: String(n) }] };
    });
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse,
      onsessioninitialized: (id) => void transports.set(id, transport),
    });
    // The declarations of that package are written for looser checks than ours.
    await server.connect(transport as Parameters<typeof server.connect>[0]);
    return transport;
  };
  return async (request, response) => {
    const body = await read(request);
    const id = request.headers['mcp-session-id'];
    const transport = typeof id === 'string' ? transports.get(id) : await begin();
    if (transport === undefined) response.writeHead(404).end();
    else await transport.handleRequest(request, response, body);
  };
}

process.on('message', () => process.send?.(process.cpuUsage()));
process.on('disconnect', () => process.exit(0));
process.send?.({ port: await start(process.argv[2] ?? '') });
