import { after } from 'node:test';
import type { Call, Implementation, Notification, ProtocolLogLevel, Revision, WebRequest } from '../../host/call.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import type { AnyBucket } from '../../host/bucket/bucket.ts';
import { Dispatcher } from '../../host/dispatcher.ts';
import { Hub } from '../../host/hub.ts';
import type { Log } from '../../host/log.ts';
import type { Registry } from '../../host/registry.ts';
import { type Json, type Scope, type Session, Sessions } from '../../host/session.ts';
import { loadTransitions } from '../../host/transitions.ts';
import { Audit } from './audit.ts';

const transitions = await loadTransitions();
const minute = 60_000;
const audit = new Audit();

// The whole log of all tests of a file.
after(() => audit.check());

type Members = { readonly [name: string]: Json };

export const nobody: Scope = { namespace: '', owner: undefined };
export const modern: Revision = '2026-07-28';
/** What a client declares that answers everything. */
export const everything: Members = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };

export interface CallOptions {
  readonly revision?: Revision;
  readonly session?: Session | null;
  readonly scope?: Scope;
  readonly capabilities?: Members;
  readonly progressToken?: string | number;
  readonly logLevel?: ProtocolLogLevel;
  readonly canPush?: boolean;
  /** Answers a pushed question; without it nobody does. */
  readonly user?: (question: Pushed) => Members | Promise<Members | undefined> | undefined;
}

export interface Pushed {
  readonly id: string;
  readonly method: string;
  readonly params: Members;
}

/** A server in this process without a transport: calls go to its dispatcher, what it sends is kept. */
export class Host {
  readonly clock: { time: number };
  readonly hub = new Hub();
  readonly sessions: Sessions;
  readonly dispatcher: Dispatcher;

  constructor(
    registry: Registry,
    bucket: AnyBucket = new MemoryBucket(),
    clock: { time: number } = { time: 1_800_000_000_000 },
    log: Log = audit.log,
  ) {
    this.clock = clock;
    const now = () => this.clock.time;
    const ttl = { sessionTtl: 60 * minute, stateTtl: 10 * minute };
    this.sessions = new Sessions({ bucket: audit.watching(bucket), transitions, log, ...ttl, now });
    this.dispatcher = new Dispatcher(registry, this.hub, { now, log });
  }

  begin(scope: Scope = nobody): Promise<Session> {
    return this.sessions.create('session', scope, {});
  }

  call(method: string, params: Members, options: CallOptions = {}): TestCall {
    return new TestCall(this, method, params, options);
  }

  request(method: string, params: Members, options: CallOptions = {}): Promise<Members> {
    return this.call(method, params, options).run();
  }

  tool(name: string, args: Members = {}, options: CallOptions & { readonly more?: Members } = {}): Promise<Members> {
    return this.request('tools/call', { name, arguments: args, ...options.more }, options);
  }
}

export class TestCall implements Call {
  readonly id = 1;
  readonly method: string;
  readonly params: Members;
  readonly revision: Revision;
  readonly session: Session | null;
  readonly sessions: Sessions;
  readonly scope: Scope;
  readonly clientInfo: Implementation = { name: 'test', version: '1.2' };
  readonly clientCapabilities: Members;
  readonly progressToken: string | number | undefined;
  readonly logLevel: ProtocolLogLevel | undefined;
  readonly canPush: boolean;
  readonly request: WebRequest = new Request('http://localhost/mcp', { method: 'POST' });
  /** What was sent, in order. */
  readonly sent: Notification[] = [];
  readonly pushed: Pushed[] = [];
  readonly #abort = new AbortController();
  readonly #host: Host;
  readonly #user: CallOptions['user'];

  constructor(host: Host, method: string, params: Members, options: CallOptions) {
    const { revision = '2025-11-25', session = null, scope = nobody, capabilities = {} } = options;
    this.#host = host;
    this.method = method;
    this.params = params;
    this.revision = revision;
    this.session = session;
    this.sessions = host.sessions;
    this.scope = scope;
    this.clientCapabilities = capabilities;
    this.progressToken = options.progressToken;
    this.logLevel = options.logLevel;
    this.canPush = options.canPush ?? (session !== null && ['2025-06-18', '2025-11-25'].includes(revision));
    this.#user = options.user;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  cancel(reason?: Error): void {
    this.#abort.abort(reason);
  }

  run(): Promise<Members> {
    return this.#host.dispatcher.request(this);
  }

  notify(notification: Notification): void {
    this.sent.push(notification);
  }

  closeStream(): boolean {
    return false;
  }

  push(id: string, method: string, params: Members): void {
    const question = { id, method, params };
    this.pushed.push(question);
    void this.#answer(question);
  }

  async #answer(question: Pushed): Promise<void> {
    const answer = await this.#user?.(question);
    if (answer === undefined) return;
    await this.session?.answer(question.id, 'error' in answer ? { error: answer.error ?? null } : { result: answer });
    this.#host.hub.wake(question.id);
  }
}

/** The text of a tool result. */
export function textOf({ content }: Members): string {
  return (content as { text: string }[]).map(({ text }) => text).join();
}

/** The text of a tool result that says that something went wrong. */
export function failureIn(result: Members): string | undefined {
  return result.isError === true ? textOf(result) : undefined;
}
