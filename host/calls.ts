import { Answer, logBug, streamReply } from './answer.ts';
import type { Reply } from './answer.ts';
import { RpcError } from './call.ts';
import type { Dispatch, Implementation, Revision, WebRequest } from './call.ts';
import { attributes } from './handshake.ts';
import type { Hub } from './hub.ts';
import { Listening } from './listening.ts';
import { Live } from './live.ts';
import type { Log } from './log.ts';
import { OpenAnswers } from './open.ts';
import { codes } from './rpc.ts';
import type { Members, RpcRequest } from './rpc.ts';
import { toLogLevel } from './revisions/r2026-07-28.ts';
import type { Wire } from './revisions/revision.ts';
import { RunningCall } from './running.ts';
import type { Json, Scope, Session, Sessions } from './session.ts';
import type { EventStream } from './sse.ts';

export interface CallsOptions {
  readonly dispatch: Dispatch;
  readonly sessions: Sessions;
  readonly hub: Hub;
  readonly log: Log;
  /** Milliseconds between two signs of life on a stream; 0 for none. */
  readonly keepAlive: number;
}

/** What a request was found to belong to. */
export interface Belonging {
  readonly wire: Wire;
  readonly request: WebRequest;
  readonly scope: Scope;
  readonly session: Session | null;
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

  /** Runs the requests of one POST. */
  answer(requests: readonly RpcRequest[], batch: boolean, belonging: Belonging): Promise<Reply> {
    const answer = new Answer(belonging.session?.id, batch ? requests.length : undefined);
    const surroundings = { ...belonging, sessions: this.#options.sessions, serverInfo: this.#serverInfo };
    for (const request of requests) void this.#run(new RunningCall(request, surroundings, answer), belonging);
    return answer.reply;
  }

  /** Opens the stream of `subscriptions/listen`. */
  subscribe(request: RpcRequest): Reply {
    const { capabilities } = this.#options.dispatch.describe('2026-07-28', true);
    const listening = new Listening(request, capabilities, this.#serverInfo);
    this.#listening.add(listening);
    this.#open.add(listening);
    listening.stream.onClose(() => {
      this.#listening.delete(listening);
      this.#open.delete(listening);
    });
    return streamReply(listening.stream);
  }

  /** Keeps a GET stream, and the session in use as long as it is open. */
  listen(session: Session, stream: EventStream): void {
    const release = session.use();
    const open = { tick: () => stream.comment(), drain: () => stream.end(), abort: () => stream.end() };
    this.#open.add(open);
    stream.onClose(() => {
      this.#open.delete(open);
      release();
    });
    this.#live.open(session, stream);
  }

  /** Ends what is open for a session. */
  end(session: Session): void {
    this.#live.end(session.id);
  }

  cancel(session: Session, requestId: Json | undefined): void {
    this.#live.cancel(session.id, requestId);
  }

  describe(revision: Revision, streams: boolean): Members {
    const { capabilities, serverInfo, instructions } = this.#options.dispatch.describe(revision, streams);
    const described = { capabilities, serverInfo: serverInfo as Json };
    return instructions === undefined ? described : { ...described, instructions };
  }

  async #run(call: RunningCall, { session }: Belonging): Promise<void> {
    this.#open.add(call);
    let release: (() => void) | undefined;
    try {
      if (session !== null) {
        release = session.use();
        this.#live.enter(session, call);
      }
      call.succeed(await this.#result(call));
    } catch (error) {
      if (call.fail(error)) logBug(this.#options.log, call.method, error);
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
