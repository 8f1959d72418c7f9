import { BucketError } from './bucket/bucket.ts';
import { RpcError } from './call.ts';
import type { RequestId } from './call.ts';
import { SessionError } from './session.ts';
import type { Json } from './session.ts';

/** The `params` of a message, or any other JSON object. */
export type Members = { readonly [name: string]: Json };

export interface RpcRequest {
  readonly kind: 'request';
  readonly id: RequestId;
  readonly method: string;
  readonly params: Members;
}

export interface RpcNotification {
  readonly kind: 'notification';
  readonly method: string;
  readonly params: Members;
}

/** The client's response to a question of ours. */
export interface RpcResponse {
  readonly kind: 'response';
  readonly id: RequestId;
  readonly response: { readonly result: Json } | { readonly error: Json };
}

export type Message = RpcRequest | RpcNotification | RpcResponse;

/** The JSON-RPC codes that this host answers with. */
export const codes = {
  parse: -32700,
  request: -32600,
  method: -32601,
  params: -32602,
  internal: -32603,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
  resourceNotFound: -32002,
} as const;

/** The most messages that one batch may hold. */
export const batchLimit = 100;

/** What an HTTP request is refused with before it becomes a call, or instead of its result. */
export class Refusal extends Error {
  readonly status: number;
  readonly code: number;
  readonly data: Json | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
  /** The id of the request, as far as it could be read. */
  readonly id: RequestId | undefined;

  constructor(
    status: number,
    code: number,
    message: string,
    more: { data?: Json; headers?: Record<string, string>; id?: RequestId | undefined } = {},
  ) {
    super(message);
    this.name = 'Refusal';
    this.status = status;
    this.code = code;
    this.data = more.data;
    this.headers = more.headers;
    this.id = more.id;
  }
}

/** Why a request's body could not be read. */
export class BodyError extends Error {
  readonly code: 'too-large' | 'not-utf-8' | 'aborted';

  constructor(code: BodyError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'BodyError';
    this.code = code;
  }
}

/** An error response, and the HTTP status of an answer that holds nothing else. */
export interface Failure {
  readonly status: number;
  readonly code: number;
  readonly message: string;
  readonly data?: Json | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Whether it is a bug of ours, to be logged. */
  readonly bug?: boolean;
}

export function isMembers(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The failure that stands for `error`: the one table from error to code to HTTP status. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Refusal) return error;
  if (error instanceof RpcError) {
    return { status: 200, code: error.code, message: error.message, data: error.data };
  }
  if (error instanceof BucketError) {
    const message = 'The session store does not answer; try again';
    return { status: 503, code: codes.internal, message, headers: { 'Retry-After': '1' } };
  }
  if (error instanceof SessionError) {
    return error.code === 'gone' || error.code === 'terminated'
      ? { status: 404, code: codes.request, message: 'Session not found' }
      : { status: 200, code: codes.params, message: error.message };
  }
  if (error instanceof BodyError) {
    return error.code === 'too-large'
      ? { status: 413, code: codes.request, message: error.message, headers: { Connection: 'close' } }
      : { status: 400, code: codes.parse, message: error.message };
  }
  return { status: 500, code: codes.internal, message: 'Internal error', bug: true };
}

/** The messages of a body: one, or those of a batch. Throws {@link Refusal}. */
export function parse(text: string): Message | readonly Message[] {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Refusal(400, codes.parse, 'The message is not JSON');
  }
  if (!Array.isArray(body)) return toMessage(body);
  if (body.length === 0) throw new Refusal(400, codes.request, 'The batch is empty');
  if (body.length > batchLimit) {
    throw new Refusal(400, codes.request, `The batch holds more than ${batchLimit} messages`);
  }
  return body.map(toMessage);
}

function toMessage(body: unknown): Message {
  if (!isMembers(body)) throw new Refusal(400, codes.request, 'The message is not a JSON object');
  const id = body['id'];
  const readable = typeof id === 'string' || (typeof id === 'number' && Number.isSafeInteger(id));
  const known = readable ? id : undefined;
  const { jsonrpc, method, params = {} } = body;
  if (jsonrpc !== '2.0') throw malformed('The member `jsonrpc` is not "2.0"', known);
  if (!readable && id !== undefined) throw malformed('The member `id` is neither a string nor an integer');
  if (method === undefined) return toResponse(body, known);
  if (typeof method !== 'string') throw malformed('The member `method` is not a string', known);
  if (!isMembers(params)) throw malformed('The member `params` is not an object', known);
  if (body['result'] !== undefined || body['error'] !== undefined) {
    throw malformed('The message is both a request and a response', known);
  }
  return known === undefined
    ? { kind: 'notification', method, params }
    : { kind: 'request', id: known, method, params };
}

function toResponse(body: Members, id: RequestId | undefined): RpcResponse {
  const { result, error } = body;
  if ((result === undefined) === (error === undefined)) throw malformed('The message has no `method`', id);
  if (id === undefined) throw malformed('The response has no `id`');
  if (result !== undefined) return { kind: 'response', id, response: { result } };
  if (!isMembers(error) || !Number.isInteger(error['code']) || typeof error['message'] !== 'string') {
    throw malformed('The member `error` is not a JSON-RPC error', id);
  }
  return { kind: 'response', id, response: { error } };
}

function malformed(message: string, id?: RequestId): Refusal {
  return new Refusal(400, codes.request, message, { id });
}

/** A result response as text. */
export function encodeResult(id: RequestId, result: Members): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result });
}

/** An error response as text; without an `id` if none could be read. */
export function encodeError(id: RequestId | undefined, code: number, message: string, data?: Json): string {
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code, message, data } });
}
