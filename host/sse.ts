/** Where the events of a stream go: a socket, or a Web stream. */
export interface Sink {
  /** Returns false if the reader is slow; then `pull` of the stream tells when to go on. */
  write(text: string): boolean;
  /** No event follows. `complete` is false if the stream was cut because its reader is too slow. */
  end(complete: boolean): void;
}

/** The characters that a stream may hold for a slow reader, beyond which it is cut. */
export const backlogLimit = 4 * 1024 * 1024;

const lineBreaks = /[\u0085\u2028\u2029]/;
const everyLineBreak = /[\u0085\u2028\u2029]/g;

/** One event that carries a JSON text, with an id if it is to be asked for what follows it. */
export function frame(json: string, id?: string): string {
  const data = `data: ${oneLine(json)}\n\n`;
  return id === undefined ? data : `id: ${id}\n${data}`;
}

/** A JSON text with what some parsers take for the end of a line escaped. */
export function oneLine(json: string): string {
  return lineBreaks.test(json) ? json.replace(everyLineBreak, escape) : json;
}

function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/**
 * The Server-Sent Events of one answer. Whoever has the answer writes; the shell drains it into its socket.
 *
 * What is written before the shell attaches, or while the reader is slow, is held up to a limit. A single event may
 * exceed it; a second one behind it may not.
 */
export class EventStream {
  readonly #limit: number;
  readonly #backlog: string[] = [];
  #held = 0;
  #sink: Sink | undefined;
  #flowing = false;
  #state: 'open' | 'ended' | 'cut' = 'open';
  #told = false;
  #onClose: (() => void)[] = [];
  #onDrained: (() => void)[] = [];

  constructor(limit: number = backlogLimit) {
    this.#limit = limit;
  }

  /** Whether nothing more can be written: it was ended, cut, or its reader has gone. */
  get closed(): boolean {
    return this.#state !== 'open';
  }

  /** Runs `listener` once, when the stream is closed for whatever reason. */
  onClose(listener: () => void): void {
    if (this.closed) listener();
    else this.#onClose.push(listener);
  }

  /** Writes an event. Returns whether it was taken. */
  send(json: string, id?: string): boolean {
    return this.#write(frame(json, id));
  }

  /** Writes an event without a message: its id is what the reader comes back with, after `retry` milliseconds. */
  prime(id: string, retry: number): void {
    this.#write(`id: ${id}\nretry: ${retry}\ndata: \n\n`);
  }

  /** Tells the reader how many milliseconds to wait before it comes back. */
  retry(milliseconds: number): void {
    this.#write(`retry: ${milliseconds}\n\n`);
  }

  /** Resolves when the reader has taken everything and takes more, or when the stream is closed. */
  drained(): Promise<void> {
    return new Promise((resolve) => {
      if (this.closed || this.#flowing) resolve();
      else this.#onDrained.push(resolve);
    });
  }

  /** Writes a comment, which keeps proxies and clients from giving the connection up. */
  comment(): void {
    // Behind a backlog a comment would say nothing that the backlog does not.
    if (this.#backlog.length === 0) this.#write(':\n\n');
  }

  /** Ends the stream after what was written. */
  end(): void {
    if (this.#state !== 'open') return;
    this.#close('ended');
    this.#flush();
  }

  /** Gives the stream its reader. */
  attach(sink: Sink): void {
    this.#sink = sink;
    this.#flowing = true;
    this.#flush();
  }

  /** The reader takes more. */
  pull(): void {
    this.#flowing = true;
    this.#flush();
  }

  /** The reader has gone: what is held is dropped. */
  cancel(): void {
    this.#sink = undefined;
    this.#drop();
    this.#told = true;
    if (this.#state === 'open') this.#close('cut');
  }

  #write(text: string): boolean {
    if (this.#state !== 'open') return false;
    if (this.#flowing && this.#sink !== undefined) {
      this.#flowing = this.#sink.write(text);
      return true;
    }
    if (this.#held > 0 && this.#held + text.length > this.#limit) {
      this.#drop();
      this.#close('cut');
      this.#flush();
      return false;
    }
    this.#backlog.push(text);
    this.#held += text.length;
    return true;
  }

  #flush(): void {
    const sink = this.#sink;
    if (sink === undefined || this.#told) return;
    if (this.#flowing && this.#backlog.length > 0) {
      const text = this.#backlog.join('');
      this.#drop();
      this.#flowing = sink.write(text);
    }
    if (this.#state !== 'open' && this.#backlog.length === 0) {
      this.#told = true;
      sink.end(this.#state === 'ended');
    }
    if (this.#flowing) this.#wake();
  }

  #wake(): void {
    const waiting = this.#onDrained;
    this.#onDrained = [];
    for (const resolve of waiting) resolve();
  }

  #drop(): void {
    this.#backlog.length = 0;
    this.#held = 0;
  }

  #close(state: 'ended' | 'cut'): void {
    this.#state = state;
    const listeners = this.#onClose;
    this.#onClose = [];
    for (const listener of listeners) listener();
    this.#wake();
  }
}
