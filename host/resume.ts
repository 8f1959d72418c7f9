import { randomBytes } from 'node:crypto';
import { eventId } from './event-id.ts';
import type { EventPlace } from './event-id.ts';
import type { Journal, Reading } from './journal.ts';
import { codes, encodeError } from './rpc.ts';
import type { EventStream } from './sse.ts';

/** How often the bucket is looked at for what another process stored, in milliseconds. */
const lookAgain = 200;
/** How long the process of a call may show no sign of life before the call is taken for lost, in milliseconds. */
export const lostAfter = 60_000;

/**
 * Makes `connection` the one on which a stream goes on after `place`. Returns what sends the events on it, as they come and
 * as fast as they are taken, and resolves when the stream has ended, another connection took it over or this one was closed.
 * `undefined` if nothing is known of the stream, or no more of what followed. Fails with `BucketError`.
 */
export async function resume(
  journal: Journal,
  { stream, position }: EventPlace,
  connection: EventStream,
): Promise<(() => Promise<void>) | undefined> {
  if (!(await journal.knows(stream, position))) return undefined;
  const reader = randomBytes(12).toString('base64url');
  const failure = await journal.add({ kind: 'resume', stream, reader });
  if (failure !== undefined) throw failure;
  return async () => {
    const bell = new Bell();
    const forget = journal.onStored(() => bell.ring());
    connection.onClose(() => bell.ring());
    try {
      for (let last = position; !connection.closed; ) {
        bell.still();
        const reading = await journal.after(stream, last);
        if (reading === undefined || reading.reader !== reader) break;
        for (const [, at, json] of reading.events) {
          connection.send(json, eventId(stream, at));
          last = at;
          await connection.drained();
        }
        if (reading.ended) break;
        if (reading.events.length > 0) continue;
        if (journal.now - reading.seen > lostAfter) await giveUp(journal, stream, reading);
        else await bell.heard(lookAgain);
      }
    } finally {
      forget();
      connection.end();
    }
  };
}

/** Ends a stream of which nobody is left to write the rest. */
async function giveUp(journal: Journal, stream: string, { call, seen }: Reading): Promise<void> {
  const message = 'The server that ran the call has gone; whether the call did its work is not known';
  const json = call === undefined ? undefined : encodeError(call, codes.internal, message);
  const failure = await journal.add({ kind: 'abandon', stream, seen, json });
  if (failure !== undefined) throw failure;
}

/** Wakes who waits, and also who will wait: what rings before is heard. */
class Bell {
  #rung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#wake?.();
  }

  still(): void {
    this.#rung = false;
  }

  /** Resolves when it rings or has rung since it was {@link still}, at the latest after some time. */
  heard(milliseconds: number): Promise<void> {
    if (this.#rung) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
