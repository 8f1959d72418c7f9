import type { Writable } from 'node:stream';
import type { Log } from '../log.ts';
import { backlogLimit, oneLine } from '../sse.ts';

/**
 * The one output of stdio: a message a line.
 *
 * What waits for a slow reader is bounded by what is owed to it: responses and questions, of which there are no more than
 * calls. Beyond {@link backlogLimit} what only tells of progress is dropped, and what tells of a change waits once.
 */
export class Output {
  readonly #stream: Writable;
  readonly #log: Log;
  readonly #late = new Set<string>();
  readonly #onGone: () => void;
  #waiting: (() => void) | undefined;
  #gone = false;
  #dropping = false;

  /** `onGone` runs once, when nobody reads any more. */
  constructor(stream: Writable, log: Log, onGone: () => void) {
    this.#stream = stream;
    this.#log = log;
    this.#onGone = onGone;
    stream.on('drain', () => this.#drained());
    stream.on('error', () => this.#leave());
    stream.on('close', () => this.#leave());
  }

  /** Sends a message that is owed. */
  send(json: string): void {
    if (!this.#gone) this.#stream.write(`${oneLine(json)}\n`);
  }

  /** Sends a message that a reader can do without: one that is too far behind does not get it. */
  offer(json: string): void {
    if (!this.#behind) {
      this.send(json);
    } else if (!this.#dropping) {
      this.#dropping = true;
      this.#log('warning', 'notifications dropped', { why: 'the client does not read' });
    }
  }

  /** Sends what tells of a change: a reader that is too far behind gets it later, and then once. */
  announce(json: string): void {
    if (this.#behind) this.#late.add(json);
    else this.send(json);
  }

  /** Resolves when the reader takes more, or has gone. */
  async room(): Promise<void> {
    if (this.#gone || !this.#stream.writableNeedDrain) return;
    await new Promise<void>((resolve) => {
      this.#waiting = resolve;
    });
  }

  /** Lets go whoever waits for room. */
  release(): void {
    this.#waiting?.();
    this.#waiting = undefined;
  }

  /** Resolves when all that was sent has been taken, or nobody is there to take it. */
  async flush(): Promise<void> {
    this.#sendLate();
    if (this.#gone) return;
    await new Promise<void>((resolve) => {
      this.#stream.once('close', resolve);
      this.#stream.write('', () => resolve());
    });
  }

  get #behind(): boolean {
    return this.#stream.writableLength > backlogLimit;
  }

  #drained(): void {
    this.#dropping = false;
    this.#sendLate();
    if (!this.#stream.writableNeedDrain) this.release();
  }

  #sendLate(): void {
    for (const json of this.#late) this.send(json);
    this.#late.clear();
  }

  #leave(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#late.clear();
    this.release();
    this.#onGone();
  }
}
