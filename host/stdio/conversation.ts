import { logBug } from '../answer.ts';
import type { Belonging } from '../beginning.ts';
import type { RequestId } from '../call.ts';
import { Calls } from '../calls.ts';
import type { CallsOptions } from '../calls.ts';
import { offered, wires } from '../revisions/all.ts';
import type { Mode } from '../revisions/all.ts';
import { checkRequest, metaKeys, versionIn } from '../revisions/r2026-07-28.ts';
import type { Wire } from '../revisions/revision.ts';
import { codes, encodeError, encodeResult, failureOf, parse, Refusal } from '../rpc.ts';
import type { Message, RpcNotification, RpcRequest, RpcResponse } from '../rpc.ts';
import type { Scope, Session } from '../session.ts';
import { LineChannel } from './channel.ts';
import { BatchAnswer, LineOutlet, LineRequest } from './line-call.ts';
import type { Output } from './output.ts';

export interface ConversationOptions extends Omit<CallsOptions, 'keepAlive'> {
  readonly mode: Mode;
  readonly namespace?: string;
}

/** A request that has no response yet. */
interface Running {
  /** The client took it back. */
  cancel(): void;
  /** This process ends. */
  abort(): void;
  /** The client has gone. */
  leave(): void;
}

/** What `initialize` came to, for all that follows. */
interface Agreed {
  readonly wire: Wire;
  readonly session: Session | null;
  /** What a session hears of beside its calls; opened when the client says that it is ready. */
  channel?: LineChannel;
  /** Lets the session expire. */
  readonly release: () => void;
}

const modern = wires['2026-07-28'];

/**
 * What one client and this server say to each other over one pair of streams: finds the revision and the session of each
 * message by the rules of the mode. Its calls run side by side; everything else is done in the order of the lines.
 */
export class Conversation {
  readonly #options: ConversationOptions;
  readonly #output: Output;
  readonly #calls: Calls;
  readonly #supported: readonly string[];
  readonly #scope: Scope;
  readonly #running = new Map<RequestId, Running>();
  readonly #questions = new Set<string>();
  #agreed: Agreed | undefined;
  #deaf = false;

  constructor(options: ConversationOptions, output: Output) {
    this.#options = options;
    this.#output = output;
    this.#supported = offered[options.mode];
    this.#calls = new Calls({ ...options, keepAlive: 0 }, this.#supported);
    this.#scope = { namespace: options.namespace ?? '', owner: undefined };
  }

  /** Takes a line. Never rejects: what is wrong with it is answered. */
  async hear(line: string): Promise<void> {
    try {
      const body = parse(line);
      await ('kind' in body ? this.#single(body) : this.#batch(body));
    } catch (error) {
      this.refuse(error);
    }
  }

  /** Answers what could not be served; without an id if none could be read. */
  refuse(error: unknown, id?: RequestId): void {
    const { code, message, data, bug } = failureOf(error);
    if (bug) logBug(this.#options.log, 'stdio', error);
    this.#output.send(encodeError(error instanceof Refusal ? (error.id ?? id) : id, code, message, data));
  }

  /** Nothing more is heard: who waits for an answer of the client waits no longer. */
  stopListening(): void {
    this.#deaf = true;
    for (const id of this.#questions) void this.#giveUp(id);
  }

  /** Nobody reads any more: the calls are for nobody. */
  leave(): void {
    for (const running of [...this.#running.values()]) running.leave();
  }

  /** Ends streams and resolves when the running calls have ended, within `timeout` milliseconds. */
  drain(timeout: number): Promise<void> {
    return this.#calls.close(timeout);
  }

  /** Answers what still runs with an error, and deletes the session: nobody can come back to it. */
  async end(): Promise<void> {
    for (const running of [...this.#running.values()]) running.abort();
    const agreed = this.#agreed;
    if (agreed === undefined) return;
    agreed.release();
    try {
      await agreed.session?.delete();
    } catch (error) {
      this.#options.log('warning', 'session not deleted', { why: messageOf(error) });
    }
  }

  async #single(message: Message): Promise<void> {
    if (message.kind !== 'request') return await this.#take(message);
    try {
      await this.#request(message);
    } catch (error) {
      this.refuse(error, message.id);
    }
  }

  async #request(request: RpcRequest): Promise<void> {
    this.#checkUnused(request.id);
    if (versionIn(request) !== undefined) this.#serveModern(request);
    else if (request.method === 'initialize') await this.#initialize(request);
    else await this.#serve(request);
  }

  async #batch(messages: readonly Message[]): Promise<void> {
    const agreed = this.#agreed;
    if (agreed?.wire.batches !== true || messages.some((message) => versionIn(message) !== undefined)) {
      throw new Refusal(400, codes.request, 'The line must hold a single message');
    }
    const requests = messages.filter((message) => message.kind === 'request');
    if (requests.some(({ method }) => method === 'initialize')) {
      throw new Refusal(400, codes.request, 'initialize cannot be part of a batch');
    }
    for (const { id } of requests) this.#checkUnused(id);
    if (new Set(requests.map(({ id }) => id)).size < requests.length) throw inUse();
    const { wire } = agreed;
    const session = await this.#session(agreed);
    for (const message of messages) if (message.kind !== 'request') await this.#take(message);
    const batch = new BatchAnswer(this.#output, requests.length);
    for (const request of requests) this.#run(request, { wire, session }, (json) => batch.add(json));
  }

  /** An id names one call, or a cancellation could not tell which. */
  #checkUnused(id: RequestId): void {
    if (this.#running.has(id)) throw inUse();
  }

  #cancel(id: unknown): void {
    if (typeof id === 'string' || typeof id === 'number') this.#running.get(id)?.cancel();
  }

  #serveModern(request: RpcRequest): void {
    checkRequest(request, undefined, this.#supported);
    const belonging = { wire: modern, session: null };
    if (request.method === 'subscriptions/listen') this.#subscribe(request);
    else this.#run(request, belonging, (json) => this.#respond(json));
  }

  async #initialize(request: RpcRequest): Promise<void> {
    const { mode, sessions } = this.#options;
    const before = this.#agreed;
    const id = before?.session?.id;
    const live = id === undefined ? before : await sessions.open('session', this.#scope, id);
    if (live !== undefined) throw new Refusal(400, codes.request, 'The session is initialized already');
    const from = { request: new LineRequest(), scope: this.#scope };
    const { wire, session, json } = await this.#calls.initialize(request, from, mode !== 'stateless');
    before?.release();
    // However long the client is silent, it is there.
    this.#agreed = { wire, session, release: session?.use() ?? (() => undefined) };
    this.#output.send(json);
  }

  async #serve(request: RpcRequest): Promise<void> {
    const agreed = this.#agreed;
    if (agreed === undefined) {
      if (request.method === 'ping') return this.#output.send(encodeResult(request.id, {}));
      const expected = `begin with initialize, or name the protocol version in _meta as ${metaKeys.version}`;
      throw new Refusal(400, codes.request, `No protocol version was agreed on: ${expected}`);
    }
    const session = await this.#session(agreed);
    this.#run(request, { wire: agreed.wire, session }, (json) => this.#respond(json));
  }

  /** Takes what needs no response. Before anything was agreed on it means nothing. */
  async #take(message: RpcNotification | RpcResponse): Promise<void> {
    if (message.kind === 'response') return await this.#answered(message);
    const { method, params } = message;
    if (method === 'notifications/cancelled') return this.#cancel(params['requestId']);
    const agreed = this.#agreed;
    if (agreed === undefined || versionIn(message) !== undefined) return;
    try {
      const session = await this.#session(agreed);
      await this.#calls.take(message, session);
      if (session !== null && method === 'notifications/initialized') this.#listen(agreed, session);
    } catch (error) {
      // A notification has no response, whatever becomes of it.
      this.#options.log('warning', 'notification failed', { method: method.slice(0, 100), why: messageOf(error) });
    }
  }

  async #answered(response: RpcResponse): Promise<void> {
    const agreed = this.#agreed;
    if (agreed === undefined) return;
    await this.#calls.take(response, await this.#session(agreed));
    this.#questions.delete(String(response.id));
  }

  #listen(agreed: Agreed, session: Session): void {
    if (agreed.channel !== undefined) return;
    agreed.channel = new LineChannel(this.#output);
    this.#calls.listen(session, agreed.channel);
  }

  /** The session as it is now. */
  async #session({ session }: Agreed): Promise<Session | null> {
    if (session === null) return null;
    const fresh = await this.#options.sessions.open('session', this.#scope, session.id);
    if (fresh === undefined) throw new Refusal(404, codes.request, 'The session has ended: begin with initialize');
    return fresh;
  }

  #run(message: RpcRequest, from: Pick<Belonging, 'wire' | 'session'>, finish: (json?: string) => void): void {
    const { id } = message;
    const request = new LineRequest();
    const questions = {
      opened: (question: string) => {
        this.#questions.add(question);
        if (this.#deaf) void this.#giveUp(question);
      },
      closed: (question: string) => void this.#questions.delete(question),
    };
    const outlet = new LineOutlet(this.#output, questions, (json) => {
      this.#running.delete(id);
      finish(json);
    });
    const call = this.#calls.run(message, { ...from, request, scope: this.#scope }, outlet);
    const leave = (): void => {
      request.leave();
      call.cancel();
    };
    this.#running.set(id, { cancel: () => call.cancel(), abort: () => call.abort(), leave });
  }

  #subscribe(message: RpcRequest): void {
    const { id } = message;
    const request = new LineRequest();
    const params = { requestId: id, reason: 'The server is closing' };
    const farewell = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params });
    const channel = new LineChannel(this.#output, farewell);
    const leave = (): void => {
      request.leave();
      channel.cancel();
    };
    this.#running.set(id, { cancel: () => channel.cancel(), abort: () => channel.end(), leave });
    channel.onClose(() => this.#running.delete(id));
    const belonging = { wire: modern, session: null, request, scope: this.#scope };
    this.#calls.subscribe(message, belonging, channel).catch((error: unknown) => {
      channel.cancel();
      this.refuse(error, id);
    });
  }

  #respond(json: string | undefined): void {
    if (json !== undefined) this.#output.send(json);
  }

  /** Answers a question for a client that cannot any more. */
  async #giveUp(id: string): Promise<void> {
    const session = this.#agreed?.session ?? null;
    const error = { code: codes.internal, message: 'The client has gone' };
    try {
      await this.#calls.take({ kind: 'response', id, response: { error } }, session);
    } catch (failure) {
      this.#options.log('warning', 'question not given up', { why: messageOf(failure) });
    }
  }
}

function inUse(): Refusal {
  return new Refusal(400, codes.request, 'The id of the request is that of one that still runs');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
