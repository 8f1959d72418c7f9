import {
  isInitializeRequest,
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCMessage,
  type RequestId,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type StreamableHTTPClientTransportOptions,
} from '@modelcontextprotocol/client';

type SendOptions = Parameters<StreamableHTTPClientTransport['send']>[1];

/**
 * The official transport, which begins another session when the server does not know the one that a request names, and
 * sends that request again, once. The status 404 says that the session is gone and the request was not carried out (session
 * management page, 2025-11-25); after any other failure nobody knows, and nothing is sent again.
 */
export class ReopeningTransport extends StreamableHTTPClientTransport {
  readonly #begin: () => Promise<void>;
  #beginning: { readonly lost: string; readonly done: Promise<void> } | undefined;
  /** The requests that wait for another session. */
  readonly #waiting = new Set<RequestId>();

  /** `begin` makes the handshake over this transport. */
  constructor(url: URL, begin: () => Promise<void>, options?: StreamableHTTPClientTransportOptions) {
    super(url, options);
    this.#begin = begin;
  }

  override async send(message: JSONRPCMessage | JSONRPCMessage[], options?: SendOptions): Promise<void> {
    // What was given up while it waited is not sent, and the server needs no word of it.
    if (isCancellation(message) && this.#waiting.delete(message.params.requestId)) return;
    const { sessionId } = this;
    try {
      await super.send(message, options);
    } catch (error) {
      const isRefused = error instanceof SdkHttpError && error.status === 404;
      if (!isRefused || sessionId === undefined) throw error;
      if (!isJSONRPCRequest(message) || isInitializeRequest(message)) throw error;
      if (await this.#isWantedAfter(() => this.#replace(sessionId, error), message.id))
        await super.send(message, options);
    }
  }

  /** Ends the session if the server answers within some milliseconds. */
  async endSession(timeout: number): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeout);
    // A failure is reported to `onerror` by the transport itself.
    await Promise.race([this.terminateSession().catch(() => undefined), late]);
    clearTimeout(timer);
  }

  /** Waits for `step`. Resolves to whether the request of that id was not given up meanwhile. */
  async #isWantedAfter(step: () => Promise<void>, id: RequestId): Promise<boolean> {
    this.#waiting.add(id);
    try {
      await step();
      return this.#waiting.has(id);
    } finally {
      this.#waiting.delete(id);
    }
  }

  /** Has another session in the place of a lost one. Requests that lost the same one together share it. */
  async #replace(lost: string, error: SdkHttpError): Promise<void> {
    if (this.#beginning === undefined && this.sessionId === lost) {
      const done = this.#begin().finally(() => {
        this.#beginning = undefined;
      });
      this.#beginning = { lost, done };
    }
    const beginning = this.#beginning;
    if (beginning === undefined) return;
    // A request of the handshake itself, whose session was lost too: it would wait for its own end.
    if (beginning.lost !== lost) throw error;
    await beginning.done;
  }
}

function isCancellation(message: unknown): message is { params: { requestId: RequestId } } {
  return isJSONRPCNotification(message) && message.method === 'notifications/cancelled';
}
