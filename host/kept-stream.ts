import type { RequestId } from './call.ts';
import { eventId, newStream } from './event-id.ts';
import type { Journal } from './journal.ts';
import { streamOf } from './journal-record.ts';
import type { Session } from './session.ts';
import type { EventStream } from './sse.ts';

/** How often a stream shows that the process of its call lives, in milliseconds. */
const signOfLife = 15_000;

/** How the streams of a session are kept. */
export interface Keeping {
  readonly session: Session;
  /** Whether a stream begins with an event that has an id and no message. */
  readonly primes: boolean;
  /** How many milliseconds a client waits before it comes back. */
  readonly retry: number;
  /** The id of the call; `undefined` for several at once. */
  readonly call: RequestId | undefined;
}

/**
 * The events of one answer, of which the client may lose the connection and come back for the rest: each is sent on the
 * connection as long as there is one, and kept in the journal.
 */
export class KeptStream {
  /** Resolves when the journal knows the stream, so that a client can come back to it. */
  readonly known: Promise<void>;
  readonly #stream = newStream();
  readonly #connection: EventStream;
  readonly #journal: Journal;
  readonly #primes: boolean;
  readonly #alive: NodeJS.Timeout;
  #position = 0;

  constructor(connection: EventStream, { session, primes, retry, call }: Keeping) {
    this.#connection = connection;
    this.#journal = session.journal;
    this.#primes = primes;
    const opened = this.#journal.add({ kind: 'open', stream: this.#stream, now: this.#journal.now, call });
    this.known = opened.then(() => undefined);
    this.#alive = setInterval(() => {
      void this.#journal.add({ kind: 'seen', stream: this.#stream, now: this.#journal.now });
    }, signOfLife).unref();
    if (primes) connection.prime(eventId(this.#stream, 0), retry);
    // A message goes to one connection: the latest that the client made for this stream.
    const forget = this.#journal.onStored((record) => {
      if (streamOf(record, this.#stream)?.reader !== undefined) connection.end();
    });
    connection.onClose(forget);
  }

  /** Sends an event, now or when the client comes back. Returns whether it was sent now. */
  send(json: string): boolean {
    const position = ++this.#position;
    void this.#journal.add({ kind: 'event', stream: this.#stream, position, json });
    return this.#connection.send(json, eventId(this.#stream, position));
  }

  comment(): void {
    this.#connection.comment();
  }

  /** No event follows. */
  end(): void {
    clearInterval(this.#alive);
    void this.#journal.add({ kind: 'end', stream: this.#stream });
    this.#connection.end();
  }

  /** Ends the connection alone, if the client knows that it is to come back, after `retry` milliseconds. */
  disconnect(retry: number | undefined): boolean {
    if (!this.#primes) return false;
    if (retry !== undefined) this.#connection.retry(retry);
    this.#connection.end();
    return true;
  }
}
