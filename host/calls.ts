import { logBug } from './answer.ts';
import { beginningOf } from './beginning.ts';
import type { BeginHook, Belonging } from './beginning.ts';
import { RpcError } from './call.ts';
import type { Dispatch, Implementation, Revision } from './call.ts';
import { attributes, readHandshake } from './handshake.ts';
import type { EventPlace } from './event-id.ts';
import type { Hub } from './hub.ts';
import { Listening } from './listening.ts';
import { Live } from './live.ts';
import type { Channel } from './live.ts';
import type { Log } from './log.ts';
import { OpenAnswers } from './open.ts';
import { codes, encodeResult, Refusal } from './rpc.ts';
import type { Members, RpcNotification, RpcRequest, RpcResponse } from './rpc.ts';
import { toLogLevel } from './revisions/r2026-07-28.ts';
import type { Wire } from './revisions/revision.ts';
import { resume } from './resume.ts';
import { RunningCall } from './running.ts';
import type { Outlet } from './running.ts';
import { SessionError } from './session.ts';
import type { Json, Session, Sessions } from './session.ts';
import type { EventStream } from './sse.ts';

export interface CallsOptions {
  readonly dispatch: Dispatch;
  readonly sessions: Sessions;
  readonly hub: Hub;
  readonly log: Log;
  /** Milliseconds between two signs of life on a stream; 0 for none. */
  readonly keepAlive: number;
  readonly onBegin?: BeginHook;
}

/** Where a message comes from. */
type From = Pick<Belonging, 'request' | 'scope'>;

/** What `initialize` brought: the rules agreed on, the session if there is one, and the response. */
export interface Initialized {
  readonly wire: Wire;
  readonly session: Session | null;
  readonly json: string;
}

/** Runs calls and keeps the streams that are open beside them. */
export class Calls {
  readonly #options: CallsOptions;
  readonly #supported: readonly string[];
  readonly #serverInfo: Implementation;
  readonly #live = new Live();
  readonly #open: OpenAnswers;
  readonly #listening = new Set<Listening>();
  readonly #unsubscribe: () => void;

  constructor(options: CallsOptions, supported: readonly string[]) {
    this.#options = options;
    this.#supported = supported;
    this.#serverInfo = options.dispatch.describe('2026-07-28', true).serverInfo;
    this.#open = new OpenAnswers(options.keepAlive);
    this.#unsubscribe = options.hub.subscribe((notification, sessionId) => {
      const json = JSON.stringify({ jsonrpc: '2.0', ...notification });
      if (sessionId !== undefined) {
        this.#live.send(sessionId, json);
        return;
      }
      for (const listening of this.#listening) listening.hear(notification);
      // Who wants to hear of one resource is known by session; a list concerns everybody.
      if (notification.method.endsWith('/list_changed')) this.#live.sendToAll(json);
    });
  }

  async close(timeout: number): Promise<void> {
    await this.#open.close(timeout);
    this.#unsubscribe();
  }

  /**
   * Agrees on a revision; with `stateful` a session begins, which is durable when this resolves. Nothing of it stays behind
   * if the parameters are malformed ({@link Refusal}), the bucket fails or the application refuses.
   */
  async initialize(message: RpcRequest, from: From, stateful: boolean): Promise<Initialized> {
    const { wire, attributes: notes } = readHandshake(message);
    const described = this.#describe(wire.revision, stateful);
    const session = stateful ? await this.#options.sessions.create('session', from.scope, notes) : null;
    try {
      await this.#begin({ ...from, wire, session }, message.params);
    } catch (error) {
      await session?.delete();
      throw error;
    }
    return { wire, session, json: encodeResult(message.id, { protocolVersion: wire.revision, ...described }) };
  }

  /** Runs a request. Throws {@link Refusal} if it asks for something that does not exist. */
  run(request: RpcRequest, belonging: Belonging, outlet: Outlet): RunningCall {
    const surroundings = { ...belonging, sessions: this.#options.sessions, serverInfo: this.#serverInfo };
    const call = new RunningCall(request, surroundings, outlet);
    void this.#run(call, belonging);
    return call;
  }

  /** Serves `subscriptions/listen` until the channel is closed or the returned one is ended. */
  async subscribe(request: RpcRequest, belonging: Belonging, channel: Channel): Promise<Listening> {
    await this.#begin(belonging, request.params);
    const { capabilities } = this.#options.dispatch.describe('2026-07-28', true);
    const listening = new Listening(request, capabilities, this.#serverInfo, channel);
    this.#listening.add(listening);
    this.#open.add(listening);
    channel.onClose(() => {
      this.#listening.delete(listening);
      this.#open.delete(listening);
    });
    return listening;
  }

  /** Takes what needs no response. Without a session it means nothing. */
  async take(message: RpcNotification | RpcResponse, session: Session | null): Promise<void> {
    if (session === null) return;
    if (message.kind === 'response') {
      await this.#answered(message, session);
    } else if (message.method === 'notifications/cancelled') {
      this.#live.cancel(session.id, message.params['requestId']);
    } else if (message.method === 'notifications/initialized') {
      const known = session.attribute(attributes.initialized) !== undefined;
      if (!known) await session.setAttribute(attributes.initialized, 'true');
    }
  }

  /** Sends on `stream` what is for a session and belongs to no call, and keeps the session in use as long as it is open. */
  listen(session: Session, stream: Channel): void {
    const release = session.use();
    const open = { tick: () => stream.comment(), drain: () => stream.end(), abort: () => stream.end() };
    this.#open.add(open);
    stream.onClose(() => {
      this.#open.delete(open);
      release();
    });
    this.#live.open(session, stream);
  }

  /** Goes on with a stream of a session on `connection`. Returns whether that stream is known. */
  async resume(session: Session, place: EventPlace, connection: EventStream): Promise<boolean> {
    const run = await resume(session.journal, place, connection);
    if (run === undefined) return false;
    const release = session.use();
    const open = { tick: () => connection.comment(), drain: () => connection.end(), abort: () => connection.end() };
    this.#open.add(open);
    const leave = this.#live.accompany(session, connection);
    connection.onClose(() => {
      this.#open.delete(open);
      leave();
      release();
    });
    run().catch((error: unknown) => {
      this.#options.log('warning', 'stream not resumed', { why: error instanceof Error ? error.message : '' });
    });
    return true;
  }

  /** Ends what is open for a session. */
  end(session: Session): void {
    this.#live.end(session.id);
  }

  /** Lets the application prepare a session, or refuse it. */
  async #begin(belonging: Belonging, params: Members): Promise<void> {
    await this.#options.onBegin?.(beginningOf(belonging, params));
  }

  #describe(revision: Revision, streams: boolean): Members {
    const { capabilities, serverInfo, instructions } = this.#options.dispatch.describe(revision, streams);
    const described = { capabilities, serverInfo: serverInfo as Json };
    return instructions === undefined ? described : { ...described, instructions };
  }

  async #answered({ id, response }: RpcResponse, session: Session): Promise<void> {
    try {
      // The answer is stored before the hub is told: a waiter that wakes must find it.
      await session.answer(String(id), response);
    } catch (error) {
      if (!(error instanceof SessionError)) throw error;
      if (error.code === 'misfit') throw new Refusal(400, codes.params, 'The response does not fit its question');
      // Answered before, given up, or never asked: nobody waits for it, and the client can do nothing about it.
      if (error.code !== 'no-such-question') throw error;
    }
    this.#options.hub.wake(String(id));
  }

  async #run(call: RunningCall, belonging: Belonging): Promise<void> {
    const { session } = belonging;
    this.#open.add(call);
    let release: (() => void) | undefined;
    try {
      if (session !== null) {
        release = session.use();
        this.#live.enter(session, call);
      } else if (this.#options.onBegin !== undefined) {
        await this.#begin(belonging, call.params);
      }
      call.succeed(await this.#result(call));
    } catch (error) {
      if (call.fail(error)) logBug(this.#options.log, call.method, error, call.request);
    } finally {
      this.#open.delete(call);
      if (session !== null) this.#live.leave(session, call);
      release?.();
    }
  }

  async #result(call: RunningCall): Promise<Members> {
    const { dispatch } = this.#options;
    const { method, revision } = call;
    const handshake = revision !== '2026-07-28';
    if (handshake && method === 'ping') return {};
    if (handshake && method === 'logging/setLevel') return await setLogLevel(call);
    if (!handshake && method === 'server/discover') {
      const { capabilities, instructions } = dispatch.describe(revision, true);
      const discovered = { supportedVersions: this.#supported, capabilities };
      return instructions === undefined ? discovered : { ...discovered, instructions };
    }
    if (!dispatch.implements(method, revision)) throw new RpcError(codes.method, 'Method not found');
    return await dispatch.request(call);
  }
}

async function setLogLevel({ params, session }: RunningCall): Promise<Members> {
  const level = toLogLevel(params['level']);
  if (level === undefined) throw new RpcError(codes.params, 'Unknown log level');
  await session?.setAttribute(attributes.logLevel, level);
  return {};
}
