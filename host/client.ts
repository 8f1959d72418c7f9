import {
  Client,
  type ClientCapabilities,
  type ClientContext,
  type ClientOptions,
  type CreateMessageRequestParams,
  type CreateMessageResult,
  type ElicitRequestParams,
  type ElicitResult,
  type Implementation,
  type ListRootsResult,
  type LoggingLevel,
  type RequestOptions,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';
import type { Revision } from './call.ts';
import type { Awaitable } from './offered.ts';
import { ReopeningTransport } from './reopening-transport.ts';

/** How long closing waits for the server to end the session, in milliseconds. */
const closeTimeout = 5_000;

const newest: Revision = '2026-07-28';

/**
 * Answers what a server asks, on every revision: on the open stream, or as the input that a result requires (elicitation,
 * sampling and roots pages). What is given here is declared as a capability; nothing else is asked.
 */
export interface Answers {
  /** Shows a form, or a page if `mode` is `url`. */
  readonly elicit?: (params: ElicitRequestParams, context: ClientContext) => Awaitable<ElicitResult>;
  readonly sample?: (params: CreateMessageRequestParams, context: ClientContext) => Awaitable<CreateMessageResult>;
  readonly listRoots?: (context: ClientContext) => Awaitable<ListRootsResult>;
}

/** Who connects, and how. The name and the version are shown to the server. */
export interface ConnectOptions extends Implementation {
  /** The newest that both sides speak if absent. */
  readonly revision?: Revision;
  readonly answer?: Answers;
  /** What the official client takes beside this. */
  readonly client?: Omit<ClientOptions, 'versionNegotiation' | 'supportedProtocolVersions'>;
  /** What its transport takes: headers, credentials, `fetch`. */
  readonly transport?: StreamableHTTPClientTransportOptions;
}

/**
 * Connects to a server over Streamable HTTP. Rejects, as the official client does, if there is none or it does not speak the
 * revision.
 */
export async function connect(url: string | URL, options: ConnectOptions): Promise<SessionClient> {
  const { revision, answer = {}, client: more = {}, transport: transportOptions, ...info } = options;
  const capabilities = { ...capabilitiesFor(answer), ...more.capabilities };
  const client = new SessionClient(info, { ...more, ...speaking(revision), capabilities });
  setAnswers(client, answer);
  const begin = () => client.begin();
  await client.connect(new ReopeningTransport(new URL(url), begin, transportOptions));
  return client;
}

/**
 * The official client, for which a session is not lost when the server has forgotten it: it begins another one, with the
 * log level and the subscriptions of the lost one, and sends again what was refused.
 */
export class SessionClient extends Client {
  readonly #info: Implementation;
  readonly #capabilities: ClientCapabilities;
  readonly #subscribed = new Set<string>();
  #logLevel: LoggingLevel | undefined;

  constructor(info: Implementation, options: ClientOptions = {}) {
    super(info, options);
    this.#info = info;
    this.#capabilities = options.capabilities ?? {};
  }

  /** Begins a session with the server that it is connected to (lifecycle page, 2025-11-25). */
  async begin(): Promise<void> {
    const protocolVersion = this.getNegotiatedProtocolVersion() ?? '';
    const params = { protocolVersion, capabilities: this.#capabilities, clientInfo: this.#info };
    const answered = await this.request({ method: 'initialize', params });
    if (answered.protocolVersion !== protocolVersion) {
      // Later, when the requests that wait have heard why: closing fails them with an error of its own.
      setTimeout(() => void this.close());
      throw new Error(`the server spoke revision ${protocolVersion} and now speaks ${answered.protocolVersion}`);
    }
    await this.notification({ method: 'notifications/initialized' });
    if (this.#logLevel !== undefined) await super.setLoggingLevel(this.#logLevel);
    for (const uri of this.#subscribed) await super.subscribeResource({ uri });
  }

  override async setLoggingLevel(level: LoggingLevel, options?: RequestOptions) {
    const result = await super.setLoggingLevel(level, options);
    this.#logLevel = level;
    return result;
  }

  override async subscribeResource(params: Parameters<Client['subscribeResource']>[0], options?: RequestOptions) {
    const result = await super.subscribeResource(params, options);
    this.#subscribed.add(params.uri);
    return result;
  }

  override async unsubscribeResource(params: Parameters<Client['unsubscribeResource']>[0], options?: RequestOptions) {
    const result = await super.unsubscribeResource(params, options);
    this.#subscribed.delete(params.uri);
    return result;
  }

  /** Ends the session and closes the connection. A session that cannot be ended expires; `onerror` hears why. */
  override async close(): Promise<void> {
    const { transport } = this;
    if (transport instanceof ReopeningTransport) await transport.endSession(closeTimeout);
    await super.close();
  }
}

/** The options of the official client that make it speak one revision. */
function speaking(revision: Revision | undefined): ClientOptions {
  if (revision === undefined) return { versionNegotiation: { mode: 'auto' } };
  if (revision === newest) return { versionNegotiation: { mode: { pin: newest } } };
  return { supportedProtocolVersions: [revision] };
}

function capabilitiesFor({ elicit, sample, listRoots }: Answers): ClientCapabilities {
  return {
    ...(elicit && { elicitation: { form: {}, url: {} } }),
    ...(sample && { sampling: {} }),
    ...(listRoots && { roots: {} }),
  };
}

function setAnswers(client: Client, { elicit, sample, listRoots }: Answers): void {
  if (elicit) client.setRequestHandler('elicitation/create', ({ params }, context) => elicit(params, context));
  if (sample) client.setRequestHandler('sampling/createMessage', ({ params }, context) => sample(params, context));
  if (listRoots) client.setRequestHandler('roots/list', (_, context) => listRoots(context));
}
