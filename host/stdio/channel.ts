import type { Channel } from '../live.ts';
import type { Output } from './output.ts';

/** What is sent beside the calls, for a session or a `subscriptions/listen`, on the one output. */
export class LineChannel implements Channel {
  readonly #output: Output;
  readonly #farewell: string | undefined;
  #closed = false;
  #onClose: (() => void)[] = [];

  /** `farewell` tells the client that this end closed it: there is no stream of its own whose end would say so. */
  constructor(output: Output, farewell?: string) {
    this.#output = output;
    this.#farewell = farewell;
  }

  send(json: string): boolean {
    if (!this.#closed) this.#output.announce(json);
    return !this.#closed;
  }

  comment(): void {
    // No proxy is there to grow tired.
  }

  end(): void {
    if (this.#closed) return;
    if (this.#farewell !== undefined) this.#output.send(this.#farewell);
    this.cancel();
  }

  /** The client wants no more of it. */
  cancel(): void {
    if (this.#closed) return;
    this.#closed = true;
    const listeners = this.#onClose;
    this.#onClose = [];
    for (const listener of listeners) listener();
  }

  onClose(listener: () => void): void {
    if (this.#closed) listener();
    else this.#onClose.push(listener);
  }
}
