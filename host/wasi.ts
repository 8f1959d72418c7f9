import { randomBytes } from 'node:crypto';
import type * as clocks from '#dist/types/host/interfaces/wasi-clocks-wall-clock.js';
import type * as wit from '#dist/types/host/interfaces/wasi-io-streams.js';

/** What a component gets for the world around it. */
export interface WasiOptions {
  /** Milliseconds since 1970. The system's clock by default. */
  readonly now?: (() => number) | undefined;
  /** That many unpredictable bytes. Those of `node:crypto` by default. */
  readonly random?: ((length: number) => Uint8Array) | undefined;
  /** Waits that many milliseconds, blocking the thread: a component waits in the middle of a call. */
  readonly sleep?: ((milliseconds: number) => void) | undefined;
}

/** The most bytes that an output stream takes in one write. */
export const maxWrite = 64 * 1024 * 1024;

/** Something to wait on: ready from a moment of the monotonic clock on. */
export class Pollable {
  readonly #when: bigint;
  readonly #sleep: (milliseconds: number) => void;
  #ready = false;

  /** Whether it was ready from the start, whatever time has passed since. */
  readonly atOnce: boolean;

  /** `when` in nanoseconds of the monotonic clock; 0 is ready at once. */
  constructor(when: bigint, sleep: (milliseconds: number) => void = sleepBlocking) {
    this.#when = when;
    this.#sleep = sleep;
    this.atOnce = when === 0n;
  }

  ready(): boolean {
    this.#ready ||= this.#when <= process.hrtime.bigint();
    return this.#ready;
  }

  block(): void {
    if (this.ready()) return;
    this.#sleep(this.wait());
    // Whoever waits by a clock of their own has waited.
    this.#ready = true;
  }

  /** Milliseconds until it is ready. */
  wait(): number {
    return this.#ready ? 0 : Math.max(0, Number(this.#when - process.hrtime.bigint()) / 1e6);
  }
}

/** Waits without returning to the event loop. */
export function sleepBlocking(milliseconds: number): void {
  // A wait of no less than a millisecond: a fraction would be cut to none at all.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.ceil(milliseconds));
}

/** Blocks until one of them is ready, and says which are. */
function poll(pollables: readonly Pollable[]): Uint32Array {
  if (pollables.length === 0) throw new TypeError('poll of an empty list');
  const ready = () => pollables.flatMap((pollable, index) => (pollable.ready() ? [index] : []));
  const first = ready();
  if (first.length > 0) return Uint32Array.from(first);
  pollables.reduce((a, b) => (a.wait() <= b.wait() ? a : b)).block();
  return Uint32Array.from(ready());
}

/** `wasi:io/error`. */
export class StreamFailure {
  readonly #message: string;

  constructor(message: string) {
    this.#message = message;
  }

  toDebugString(): string {
    return this.#message;
  }
}

/** A stream that nothing is read from: there for the type, since only components that splice would ask for one. */
export class InputStream {
  read(_length: bigint): Uint8Array {
    return fail({ tag: 'closed' });
  }

  blockingRead(length: bigint): Uint8Array {
    return this.read(length);
  }

  skip(_length: bigint): bigint {
    return fail({ tag: 'closed' });
  }

  blockingSkip(length: bigint): bigint {
    return this.skip(length);
  }

  subscribe(): Pollable {
    return new Pollable(0n);
  }
}

/** A stream that hands each write to `write`, whole and at once. When `write` throws, the stream has failed. */
export class OutputStream {
  readonly #write: (bytes: Uint8Array) => void;
  #state: 'open' | 'closed' | StreamFailure = 'open';

  constructor(write: (bytes: Uint8Array) => void) {
    this.#write = write;
  }

  /** Ends the stream: every later operation of the component answers `closed`. */
  close(): void {
    if (this.#state === 'open') this.#state = 'closed';
  }

  /** Breaks the stream: the next operation answers `last-operation-failed` with this message, later ones `closed`. */
  fail(message: string): void {
    if (this.#state === 'open') this.#state = new StreamFailure(message);
  }

  checkWrite(): bigint {
    this.#check();
    return BigInt(maxWrite);
  }

  write(contents: Uint8Array): void {
    this.#check();
    if (contents.length > maxWrite) this.fail(`a write of ${contents.length} bytes; at most ${maxWrite} are taken`);
    else {
      try {
        this.#write(contents);
      } catch (error) {
        this.fail(error instanceof Error ? error.message : String(error));
      }
    }
    this.#check();
  }

  blockingWriteAndFlush(contents: Uint8Array): void {
    this.write(contents);
  }

  flush(): void {
    this.#check();
  }

  blockingFlush(): void {
    this.#check();
  }

  subscribe(): Pollable {
    return new Pollable(0n);
  }

  writeZeroes(length: bigint): void {
    this.write(new Uint8Array(Number(length)));
  }

  blockingWriteZeroesAndFlush(length: bigint): void {
    this.writeZeroes(length);
  }

  splice(source: InputStream, length: bigint): bigint {
    const bytes = source.read(length);
    this.write(bytes);
    return BigInt(bytes.length);
  }

  blockingSplice(source: InputStream, length: bigint): bigint {
    return this.splice(source, length);
  }

  #check(): void {
    const state = this.#state;
    if (state === 'open') return;
    this.#state = 'closed';
    fail(state === 'closed' ? { tag: 'closed' } : { tag: 'last-operation-failed', val: state as wit.Error });
  }
}

/** What the WIT declares is thrown as the bare variant: the glue would take any `Error` for a fault. */
function fail(error: wit.StreamError): never {
  throw error;
}

/** The `wasi:io`, `wasi:clocks` and `wasi:random` imports, by name without version. */
export function wasiImports(options: WasiOptions = {}): Record<string, object> {
  const { now = Date.now, random = randomBytes, sleep = sleepBlocking } = options;
  const bytes = (length: number): Uint8Array => {
    const drawn = random(length);
    if (!(drawn instanceof Uint8Array) || drawn.length !== length) {
      throw new TypeError(`random(${length}) gave something else than ${length} bytes`);
    }
    return drawn;
  };
  return {
    'wasi:io/error': { Error: StreamFailure },
    'wasi:io/poll': { Pollable, poll },
    'wasi:io/streams': { InputStream, OutputStream },
    'wasi:clocks/wall-clock': {
      now: (): clocks.Datetime => {
        const milliseconds = now();
        const seconds = Math.floor(milliseconds / 1000);
        return { seconds: BigInt(seconds), nanoseconds: Math.floor((milliseconds - seconds * 1000) * 1e6) };
      },
      resolution: (): clocks.Datetime => ({ seconds: 0n, nanoseconds: 1_000_000 }),
    },
    'wasi:clocks/monotonic-clock': {
      now: () => process.hrtime.bigint(),
      resolution: () => 1n,
      subscribeInstant: (when: bigint) => new Pollable(when, sleep),
      subscribeDuration: (duration: bigint) =>
        new Pollable(duration === 0n ? 0n : process.hrtime.bigint() + duration, sleep),
    },
    'wasi:random/random': {
      getRandomBytes: (length: bigint) => bytes(Number(length)),
      getRandomU64: () => new DataView(Uint8Array.from(bytes(8)).buffer).getBigUint64(0),
    },
  };
}
