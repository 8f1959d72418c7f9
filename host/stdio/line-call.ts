import type { WebRequest } from '../call.ts';
import type { Outlet } from '../running.ts';
import type { Output } from './output.ts';

const noHeaders: WebRequest['headers'] = { get: () => null, has: () => false };

/** What a handler sees for its request where there is no HTTP: no headers, no body, and whether the client is there. */
export class LineRequest implements WebRequest {
  readonly method = 'POST';
  readonly url = 'stdio:';
  readonly headers = noHeaders;
  #abort: AbortController | undefined;
  #left = false;

  async text(): Promise<string> {
    return '';
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#left) this.#abort.abort();
    return this.#abort.signal;
  }

  /** The client has gone. */
  leave(): void {
    this.#left = true;
    this.#abort?.abort();
  }
}

/** Hears of the questions that wait for the client, by their ids. */
export interface Questions {
  opened(id: string): void;
  closed(id: string): void;
}

/** Takes what one call sends. */
export class LineOutlet implements Outlet {
  // No status was sent that an error could contradict.
  readonly begun = false;
  readonly #output: Output;
  readonly #questions: Questions;
  readonly #finish: (json: string | undefined) => void;
  readonly #asked: string[] = [];
  #asking = false;

  /** `finish` gets the response; `undefined` if there is none. */
  constructor(output: Output, questions: Questions, finish: (json: string | undefined) => void) {
    this.#output = output;
    this.#questions = questions;
    this.#finish = finish;
  }

  onLost(): void {
    // Its request says so.
  }

  asks(questionId: string): void {
    this.#asking = true;
    this.#asked.push(questionId);
    this.#questions.opened(questionId);
  }

  send(json: string): void {
    if (this.#asking) this.#output.send(json);
    else this.#output.offer(json);
    this.#asking = false;
  }

  respond(json: string): void {
    this.#end(json);
  }

  skip(): void {
    this.#end(undefined);
  }

  tick(): void {
    // Nobody between here and the client would give up.
  }

  #end(json: string | undefined): void {
    for (const id of this.#asked) this.#questions.closed(id);
    this.#finish(json);
  }
}

/** The responses to one batch, sent together when the last call is over. */
export class BatchAnswer {
  readonly #output: Output;
  readonly #responses: string[] = [];
  #waiting: number;

  constructor(output: Output, requests: number) {
    this.#output = output;
    this.#waiting = requests;
  }

  /** One more call is over. */
  add(json: string | undefined): void {
    this.#waiting -= 1;
    if (json !== undefined) this.#responses.push(json);
    // Of nothing there is no array: JSON-RPC has no empty batch.
    if (this.#waiting === 0 && this.#responses.length > 0) this.#output.send(`[${this.#responses.join(',')}]`);
  }
}
