/** An answer that is still open. */
export interface Open {
  /** Shows a sign of life. */
  tick(): void;
  /** Ends by itself now if it has no end of its own; a running call goes on. */
  drain(): void;
  /** Ends now. */
  abort(): void;
}

/** The open answers of this process: reminds each at an interval, and ends them all when the server closes. */
export class OpenAnswers {
  readonly #interval: number;
  readonly #open = new Set<Open>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #whenEmpty: (() => void) | undefined;

  /** `interval` in milliseconds; 0 for no signs of life. */
  constructor(interval: number) {
    this.#interval = interval;
  }

  add(answer: Open): void {
    this.#open.add(answer);
    if (this.#timer === undefined && this.#interval > 0) this.#start();
  }

  delete(answer: Open): void {
    this.#open.delete(answer);
    if (this.#open.size === 0) this.#whenEmpty?.();
  }

  /** Ends streams, and resolves when the running calls have ended; after `timeout` milliseconds they are aborted. */
  async close(timeout: number): Promise<void> {
    for (const answer of [...this.#open]) answer.drain();
    if (this.#open.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, timeout);
        this.#whenEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    for (const answer of [...this.#open]) answer.abort();
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    const timer: unknown = setInterval(() => this.#tick(), this.#interval);
    this.#timer = timer as ReturnType<typeof setInterval>;
    // Where a timer is a number, it holds no process open.
    if (typeof timer === 'object' && timer !== null && 'unref' in timer) (timer as { unref(): void }).unref();
  }

  #tick(): void {
    for (const answer of [...this.#open]) answer.tick();
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
