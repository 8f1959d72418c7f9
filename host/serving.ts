import { Answer, failedReply, jsonReply, streamReply } from './answer.ts';
import type { Reply } from './answer.ts';
import type { Belonging } from './beginning.ts';
import type { WebRequest } from './call.ts';
import { Calls } from './calls.ts';
import type { CallsOptions } from './calls.ts';
import { wireOf } from './handshake.ts';
import { accepts, acceptsAnswers, isJson } from './media.ts';
import { codes, parse, Refusal } from './rpc.ts';
import type { Message, RpcRequest } from './rpc.ts';
import { readEventId } from './event-id.ts';
import { handshakeWireOf, offered, wires } from './revisions/all.ts';
import type { Mode } from './revisions/all.ts';
import { checkRequest, checkVersion, unsupportedVersion, versionIn } from './revisions/r2026-07-28.ts';
import type { Json, Scope, Session } from './session.ts';
import { EventStream } from './sse.ts';

export interface ServingOptions extends CallsOptions {
  readonly mode: Mode;
  /** Milliseconds that a client waits before it comes back for the rest of a stream. */
  readonly retry: number;
}

const modern = '2026-07-28';
const accepted: Reply = { status: 202, headers: {}, body: undefined };

/** Serves the endpoint to who was let in: finds the revision and the session of a request by the rules of the mode. */
export class Serving {
  readonly #options: ServingOptions;
  readonly #calls: Calls;
  readonly #supported: readonly string[];

  constructor(options: ServingOptions) {
    this.#options = options;
    this.#supported = offered[options.mode];
    this.#calls = new Calls(options, this.#supported);
  }

  close(timeout: number): Promise<void> {
    return this.#calls.close(timeout);
  }

  async post(request: WebRequest, scope: Scope): Promise<Reply> {
    const { headers } = request;
    if (!isJson(headers.get('content-type')) || (headers.get('content-encoding') ?? 'identity') !== 'identity') {
      throw new Refusal(415, codes.request, 'Content-Type must be application/json, not encoded');
    }
    if (!acceptsAnswers(headers.get('accept'))) {
      throw new Refusal(406, codes.request, 'Accept must list application/json and text/event-stream');
    }
    const body = parse(await request.text());
    if (!('kind' in body)) return await this.#batch(body, request, scope);
    try {
      return await this.#message(body, request, scope);
    } catch (error) {
      const id = body.kind === 'request' ? body.id : undefined;
      const method = body.kind === 'response' ? 'response' : body.method;
      return failedReply(error, id, method, this.#options.log, request);
    }
  }

  async get(request: WebRequest, scope: Scope): Promise<Reply> {
    this.#checkVersionOf(request);
    if (!accepts(request.headers.get('accept'), 'text/event-stream')) {
      throw new Refusal(406, codes.request, 'Accept must list text/event-stream');
    }
    const session = await this.#session(request, scope);
    const stream = new EventStream();
    // A proxy may hold the head back until something follows it.
    stream.comment();
    const lastEventId = request.headers.get('last-event-id') ?? '';
    if (lastEventId === '') this.#calls.listen(session, stream);
    else await this.#resume(lastEventId, session, stream);
    return streamReply(stream, session.id);
  }

  async #resume(lastEventId: string, session: Session, stream: EventStream): Promise<void> {
    const place = readEventId(lastEventId);
    if (place !== undefined && (await this.#calls.resume(session, place, stream))) return;
    throw new Refusal(400, codes.request, 'Last-Event-ID names no event whose stream is kept for this session');
  }

  async delete(request: WebRequest, scope: Scope): Promise<Reply> {
    this.#checkVersionOf(request);
    const session = await this.#session(request, scope);
    await session.delete();
    this.#calls.end(session);
    return { status: 204, headers: {}, body: undefined };
  }

  /** Refuses GET and DELETE by their version header: 2026-07-28 has neither. */
  #checkVersionOf(request: WebRequest): void {
    const version = request.headers.get('mcp-protocol-version');
    if (version === modern) {
      const headers = { Allow: 'POST' };
      throw new Refusal(405, codes.request, `Protocol version ${modern} knows only POST`, { headers });
    }
    if (version !== null && handshakeWireOf(version) === undefined) {
      throw unsupportedVersion(undefined, version, this.#supported);
    }
  }

  /** The session that a request must name. */
  async #session(request: WebRequest, scope: Scope, requestId?: RpcRequest['id']): Promise<Session> {
    const id = request.headers.get('mcp-session-id');
    if (id === null || id === '') {
      throw new Refusal(400, codes.request, 'Mcp-Session-Id is missing: begin with initialize', { id: requestId });
    }
    const session = await this.#options.sessions.open('session', scope, id);
    if (session === undefined) throw new Refusal(404, codes.request, 'Session not found', { id: requestId });
    return session;
  }

  async #message(message: Message, request: WebRequest, scope: Scope): Promise<Reply> {
    const header = request.headers.get('mcp-protocol-version');
    const version = versionIn(message);
    if (version !== undefined || header === modern) return await this.#modern(message, request, scope, header, version);
    const id = message.kind === 'request' ? message.id : undefined;
    if (message.kind === 'request' && message.method === 'initialize') {
      return await this.#initialize(message, request, scope);
    }
    const asked = header === null ? wires['2025-03-26'] : handshakeWireOf(header);
    if (asked === undefined) throw unsupportedVersion(id, header ?? '', this.#supported);
    const session = this.#options.mode === 'stateless' ? null : await this.#session(request, scope, id);
    const wire = session === null ? asked : wireOf(session);
    if (message.kind === 'request') {
      return await this.#answer([message], false, { request, scope, session, wire });
    }
    await this.#calls.take(message, session);
    return session === null ? accepted : { ...accepted, headers: { 'Mcp-Session-Id': session.id } };
  }

  async #modern(
    message: Message,
    request: WebRequest,
    scope: Scope,
    header: string | null,
    version: Json | undefined,
  ): Promise<Reply> {
    if (message.kind === 'request') {
      checkRequest(message, request.headers, this.#supported);
      const surroundings = { request, scope, session: null, wire: wires[modern] };
      if (message.method === 'subscriptions/listen') {
        const stream = new EventStream();
        await this.#calls.subscribe(message, surroundings, stream);
        return streamReply(stream);
      }
      return await this.#answer([message], false, surroundings);
    }
    if (version !== undefined) checkVersion(undefined, header, String(version), this.#supported);
    if (this.#options.mode === 'stateful') throw unsupportedVersion(undefined, modern, this.#supported);
    if (message.kind === 'notification') return accepted;
    throw new Refusal(400, codes.request, `Protocol version ${modern} knows no posted responses`);
  }

  async #initialize(message: RpcRequest, request: WebRequest, scope: Scope): Promise<Reply> {
    const { mode, sessions } = this.#options;
    const named = request.headers.get('mcp-session-id');
    if (mode !== 'stateless' && named !== null && named !== '') {
      // The id of a dead session is what a client has left when it begins anew.
      const live = await sessions.open('session', scope, named);
      if (live !== undefined) {
        throw new Refusal(400, codes.request, 'The session is initialized already', { id: message.id });
      }
    }
    const { json, session } = await this.#calls.initialize(message, { request, scope }, mode !== 'stateless');
    return jsonReply(200, json, session?.id);
  }

  /** Several messages in one body, which only 2025-03-26 has. */
  async #batch(messages: readonly Message[], request: WebRequest, scope: Scope): Promise<Reply> {
    const header = request.headers.get('mcp-protocol-version');
    const wire = wires['2025-03-26'];
    if (header !== null && header !== wire.revision) throw noBatch();
    for (const message of messages) {
      if (versionIn(message) !== undefined) throw noBatch();
      if (message.kind === 'request' && message.method === 'initialize') {
        throw new Refusal(400, codes.request, 'initialize cannot be part of a batch');
      }
    }
    const session = this.#options.mode === 'stateless' ? null : await this.#session(request, scope);
    if (session !== null && !wireOf(session).batches) throw noBatch();
    const requests: RpcRequest[] = [];
    for (const message of messages) {
      if (message.kind === 'request') requests.push(message);
      else await this.#calls.take(message, session);
    }
    if (requests.length > 0) return await this.#answer(requests, true, { request, scope, session, wire });
    return session === null ? accepted : { ...accepted, headers: { 'Mcp-Session-Id': session.id } };
  }

  /** Runs the requests of one POST. */
  #answer(requests: readonly RpcRequest[], batch: boolean, belonging: Belonging): Promise<Reply> {
    const { session, wire } = belonging;
    const { retry } = this.#options;
    const keeping =
      session === null ? undefined : { session, primes: wire.primes, retry, call: batch ? undefined : requests[0]?.id };
    const answer = new Answer(session?.id, batch ? requests.length : undefined, keeping);
    for (const request of requests) this.#calls.run(request, belonging, answer);
    return answer.reply;
  }
}

function noBatch(): Refusal {
  return new Refusal(400, codes.request, 'The body must be a single message');
}
