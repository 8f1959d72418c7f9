import { logLevels } from '../call.ts';
import type { Implementation, ProtocolLogLevel, WebRequest } from '../call.ts';
import { codes, isMembers, Refusal } from '../rpc.ts';
import type { Members, Message, RpcRequest } from '../rpc.ts';
import type { Json } from '../session.ts';
import type { Wire } from './revision.ts';

/** The reserved keys of `_meta`. */
export const metaKeys = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  client: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  server: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
} as const;

/** Methods whose complete results say how long they may be kept. */
const cacheable: ReadonlySet<string> = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** The parameter that the `Mcp-Name` header repeats. */
const named: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

/** Methods of the handshake revisions that this one took away. */
const removedMethods: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'logging/setLevel',
  'resources/subscribe',
  'resources/unsubscribe',
]);

/** No handshake and no session: every request carries what it needs. */
export const r20260728: Wire = {
  revision: '2026-07-28',
  handshake: false,
  batches: false,
  pushes: false,
  primes: false,
  disconnectCancels: true,
  logLevelByRequest: true,
  resourceNotFound: codes.params,
  statuses: new Map<number, number>([
    [codes.method, 404],
    [codes.headerMismatch, 400],
    [codes.missingCapability, 400],
    [codes.unsupportedVersion, 400],
  ]),
  complete(method, result, serverInfo) {
    const meta = isMembers(result['_meta']) ? result['_meta'] : {};
    const whole = { resultType: 'complete', ...result, _meta: { ...meta, [metaKeys.server]: serverInfo as Json } };
    if (whole.resultType !== 'complete' || !cacheable.has(method)) return whole;
    return { ttlMs: 0, cacheScope: 'private', ...whole };
  },
};

/**
 * Refuses a request whose metadata or headers are not as this revision demands, in the order that clients of both eras
 * rely on: metadata, agreement of the versions, support of the version, then the other headers. Without HTTP there are
 * no headers.
 */
export function checkRequest(
  request: RpcRequest,
  headers: WebRequest['headers'] | undefined,
  supported: readonly string[],
): void {
  const { id, method, params } = request;
  const meta = params['_meta'];
  const version = isMembers(meta) ? meta[metaKeys.version] : undefined;
  if (version === undefined && method === 'initialize') {
    throw refuse(id, codes.headerMismatch, 'MCP-Protocol-Version names a revision without initialize');
  }
  if (!isMembers(meta) || typeof version !== 'string') {
    throw refuse(id, codes.params, `_meta lacks ${metaKeys.version}`);
  }
  if (!isMembers(meta[metaKeys.capabilities])) throw refuse(id, codes.params, `_meta lacks ${metaKeys.capabilities}`);
  const client = meta[metaKeys.client];
  if (client !== undefined && !isImplementation(client)) {
    throw refuse(id, codes.params, `_meta holds a malformed ${metaKeys.client}`);
  }
  checkVersion(id, headers === undefined ? version : headers.get('mcp-protocol-version'), version, supported);
  if (headers !== undefined) checkHeaders(request, headers);
  if (removedMethods.has(method)) throw new Refusal(404, codes.method, 'Method not found', { id });
  if (!supported.includes(version)) throw unsupportedVersion(id, version, supported);
}

function checkHeaders({ id, method, params }: RpcRequest, headers: WebRequest['headers']): void {
  if (headers.get('mcp-method') !== method) {
    throw refuse(id, codes.headerMismatch, 'Mcp-Method is missing or differs from the method');
  }
  const parameter = named.get(method);
  if (parameter === undefined) return;
  const name = headers.get('mcp-name');
  if (name === null || decodeHeader(name) !== params[parameter]) {
    throw refuse(id, codes.headerMismatch, `Mcp-Name is missing, malformed or differs from params.${parameter}`);
  }
}

/** The version in a message's own metadata, which marks it as one of 2026-07-28, whatever the version. */
export function versionIn(message: Message): Json | undefined {
  const meta = message.kind === 'response' ? undefined : message.params['_meta'];
  return isMembers(meta) ? meta[metaKeys.version] : undefined;
}

/** The client as the metadata of a request names it. */
export function clientIn(params: Members): Implementation | undefined {
  const client = metaOf(params)[metaKeys.client];
  return isImplementation(client) ? client : undefined;
}

/** What the client can do, as the metadata of a request says. */
export function capabilitiesIn(params: Members): Members {
  const capabilities = metaOf(params)[metaKeys.capabilities];
  return isMembers(capabilities) ? capabilities : {};
}

function metaOf(params: Members): Members {
  const meta = params['_meta'];
  return isMembers(meta) ? meta : {};
}

/** Refuses a message whose header and metadata disagree on the version, or agree on one that is not served. */
export function checkVersion(
  id: RpcRequest['id'] | undefined,
  header: string | null,
  version: string,
  supported: readonly string[],
): void {
  if (header !== version) {
    throw refuse(id, codes.headerMismatch, 'MCP-Protocol-Version is missing or differs from the version in _meta');
  }
  if (version !== '2026-07-28') throw unsupportedVersion(id, version, supported);
}

/** Says which versions can be had instead. What was asked for is not among them: metadata cannot bring a handshake. */
export function unsupportedVersion(
  id: RpcRequest['id'] | undefined,
  requested: string,
  supported: readonly string[],
): Refusal {
  const others = supported.filter((version) => version !== requested);
  const message = `Unsupported protocol version; supported: ${others.join(', ')}`;
  return new Refusal(400, codes.unsupportedVersion, message, { id, data: { supported: others, requested } });
}

/** The severity that a request asks for. Throws {@link Refusal} if there is no such severity. */
export function logLevelOf(request: RpcRequest): ProtocolLogLevel | undefined {
  const meta = request.params['_meta'];
  const wanted = isMembers(meta) ? meta[metaKeys.logLevel] : undefined;
  if (wanted === undefined) return undefined;
  const level = toLogLevel(wanted);
  if (level === undefined) throw new Refusal(200, codes.params, 'Unknown log level', { id: request.id });
  return level;
}

/** `value` as a severity, or `undefined` if it is none. */
export function toLogLevel(value: unknown): ProtocolLogLevel | undefined {
  return logLevels.find((level) => level === value);
}

/** Whether `value` is the name and version of a program. */
export function isImplementation(value: unknown): value is Implementation {
  return isMembers(value) && typeof value['name'] === 'string' && typeof value['version'] === 'string';
}

const wrapped = /^=\?base64\?(.*)\?=$/;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The text that a header value stands for: itself, or what its Base64 form wraps. `undefined` if that is malformed. */
export function decodeHeader(value: string): string | undefined {
  const inner = wrapped.exec(value)?.[1];
  if (inner === undefined) return value;
  if (!base64.test(inner)) return undefined;
  const bytes = Uint8Array.from(atob(inner), (character) => character.charCodeAt(0));
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

function refuse(id: RpcRequest['id'] | undefined, code: number, message: string): Refusal {
  return new Refusal(400, code, message, { id });
}
