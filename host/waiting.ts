import { Pollable } from './wasi.ts';

/** What an `AbortSignal` has of which use is made: the typings of it are not everybody's. */
export interface GivenUp {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** The longest that a timer takes. */
const longest = 2 ** 31 - 1;

/** Where components wait without blocking the thread: each for its own time, or until all are woken to look again. */
export class Waiting {
  readonly #pauses = new Set<() => void>();
  #wakes = 0;

  /** How often everybody was woken. */
  get wakes(): number {
    return this.#wakes;
  }

  /** Makes everybody look again. */
  wake(): void {
    this.#wakes += 1;
    for (const end of [...this.#pauses]) end();
  }

  /** Resolves after that many milliseconds, or earlier when everybody is woken. Never, once `givenUp` is aborted. */
  pause(milliseconds: number, givenUp?: GivenUp): Promise<void> {
    return new Promise((resolve) => {
      if (givenUp?.aborted) return;
      const leave = () => {
        clearTimeout(timer);
        this.#pauses.delete(end);
        givenUp?.removeEventListener('abort', leave);
      };
      const end = () => {
        leave();
        resolve();
      };
      const timer = setTimeout(end, Math.min(Math.ceil(milliseconds), longest));
      this.#pauses.add(end);
      givenUp?.addEventListener('abort', leave);
    });
  }
}

/** Where one guest waits, and the signal that it was given up: then it is left as it is, and nothing is kept for it. */
export interface Place {
  readonly waiting: Waiting;
  readonly givenUp?: GivenUp | undefined;
}

/** A pollable whose `block` suspends the component that calls it, and returns to the event loop. */
export class SuspendingPollable extends Pollable {
  readonly #place: Place;
  readonly #wakes: number | undefined;

  /** `when` in nanoseconds of the monotonic clock. With `wakeable` it is ready too as soon as everybody is woken. */
  constructor(when: bigint, place: Place, wakeable = false) {
    super(when);
    this.#place = place;
    this.#wakes = wakeable ? place.waiting.wakes : undefined;
  }

  override ready(): boolean {
    return super.ready() || (this.#wakes !== undefined && this.#wakes !== this.#place.waiting.wakes);
  }

  override async block(): Promise<void> {
    const { waiting, givenUp } = this.#place;
    while (!this.ready()) await waiting.pause(this.wait(), givenUp);
  }
}

/** Suspends until one of them is ready, and says which are. */
async function poll({ waiting, givenUp }: Place, pollables: readonly Pollable[]): Promise<Uint32Array> {
  if (pollables.length === 0) throw new TypeError('poll of an empty list');
  for (;;) {
    const ready = pollables.flatMap((pollable, index) => (pollable.ready() ? [index] : []));
    if (ready.length > 0) return Uint32Array.from(ready);
    await waiting.pause(Math.min(...pollables.map((pollable) => pollable.wait())), givenUp);
  }
}

/** What of `wasi:io` and `wasi:clocks` is different for a component that is suspended while it waits. */
export function suspendingImports(imports: Readonly<Record<string, object>>, place: Place): Record<string, object> {
  return {
    'wasi:io/poll': { Pollable, poll: (pollables: readonly Pollable[]) => poll(place, pollables) },
    'wasi:clocks/monotonic-clock': {
      ...imports['wasi:clocks/monotonic-clock'],
      subscribeInstant: (when: bigint) => new SuspendingPollable(when, place),
      subscribeDuration: (duration: bigint) => new SuspendingPollable(process.hrtime.bigint() + duration, place),
    },
  };
}
