import type { Notification } from './call.ts';

/** Hears of a change: to everybody who subscribed, or only to the session of that id. */
export type Listener = (notification: Notification, sessionId: string | undefined) => void;

/**
 * Wakes what waits in this process.
 *
 * It keeps nothing: whoever is woken, or grows tired of waiting, reads the bucket. So it may be lost without loss.
 */
export class Hub {
  readonly #waiting = new Map<string, Set<() => void>>();
  readonly #listeners = new Set<Listener>();

  /** Resolves when a question of that id is answered through this process, or when `signal` is aborted. */
  wait(questionId: string, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(questionId) ?? new Set();
      const done = (): void => {
        waiting.delete(done);
        if (waiting.size === 0) this.#waiting.delete(questionId);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      if (signal?.aborted) return resolve();
      this.#waiting.set(questionId, waiting.add(done));
      signal?.addEventListener('abort', done);
    });
  }

  /** Wakes everybody who waits for that question. */
  wake(questionId: string): void {
    for (const done of [...(this.#waiting.get(questionId) ?? [])]) done();
  }

  /** Tells of a change, such as `notifications/tools/list_changed`. */
  publish(notification: Notification, sessionId?: string): void {
    for (const listener of [...this.#listeners]) listener(notification, sessionId);
  }

  /** Calls `listener` at every change until the returned function is called. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
