import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { BodyError } from '../rpc.ts';
import { bodyLimit } from '../web.ts';
import { Conversation } from './conversation.ts';
import type { ConversationOptions } from './conversation.ts';
import { readLines } from './lines.ts';
import { Output } from './output.ts';

export interface StdioTransportOptions extends ConversationOptions {
  readonly input: Readable;
  readonly output: Writable;
  /** The largest line that is read, in bytes; 4 MiB if absent. */
  readonly lineLimit?: number;
  /** Milliseconds that running calls get at the end; 10,000 if absent. */
  readonly drainTimeout?: number;
}

/** Serves one client over a pair of streams, newline-delimited (stdio transport of every revision). */
export class Stdio {
  readonly #options: StdioTransportOptions;
  readonly #output: Output;
  readonly #conversation: Conversation;
  readonly #hurry = Promise.withResolvers<void>();
  #state: 'reading' | 'stopping' | 'ending' = 'reading';
  /** Resolves when the client has gone or {@link close} was called, the calls have ended and the session is deleted. */
  readonly closed: Promise<void>;

  constructor(options: StdioTransportOptions) {
    this.#options = options;
    this.#output = new Output(options.output, options.log, () => this.#left());
    this.#conversation = new Conversation(options, this.#output);
    this.closed = this.#serve();
  }

  /** Reads no more and lets running calls finish. When that is so already, the calls are aborted. */
  close(): Promise<void> {
    if (this.#state === 'reading') this.#stop();
    else this.#hurry.resolve();
    return this.closed;
  }

  async #serve(): Promise<void> {
    const { input, log, lineLimit = bodyLimit, drainTimeout = 10_000 } = this.#options;
    try {
      for await (const line of readLines(input, lineLimit)) {
        // A client that does not read what it asked for is not asked for more.
        await this.#output.room();
        if (this.#state !== 'reading') break;
        if (line instanceof BodyError) this.#conversation.refuse(line);
        else await this.#conversation.hear(line);
      }
    } catch (error) {
      if (this.#state === 'reading') log('warning', 'input failed', { why: String(error) });
    }
    this.#state = 'ending';
    this.#conversation.stopListening();
    await this.#orHurry(this.#conversation.drain(drainTimeout));
    await this.#conversation.end();
    await this.#orHurry(Promise.race([this.#output.flush(), delay(drainTimeout, undefined, { ref: false })]));
  }

  #stop(): void {
    this.#state = 'stopping';
    this.#output.release();
    this.#options.input.destroy();
  }

  #left(): void {
    this.#conversation.leave();
    if (this.#state === 'reading') this.#stop();
  }

  async #orHurry(done: Promise<unknown>): Promise<void> {
    await Promise.race([done, this.#hurry.promise]);
  }
}
