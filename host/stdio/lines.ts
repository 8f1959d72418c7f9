import { isUtf8 } from 'node:buffer';
import { BodyError } from '../rpc.ts';

const lineFeed = 0x0a;

/**
 * The lines of a stream of bytes, without their ends; the last one needs none, and blank ones are passed over.
 *
 * A line of more than `limit` bytes, or that is no UTF-8, comes as the error that refuses it, and the lines after it come
 * all the same. Nothing is read ahead of what is asked for, but for the chunk at hand.
 */
export async function* readLines(
  input: AsyncIterable<Uint8Array | string>,
  limit: number,
): AsyncGenerator<string | BodyError> {
  const line = new Line(limit);
  for await (const chunk of input) {
    let rest = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    for (let end = rest.indexOf(lineFeed); end !== -1; end = rest.indexOf(lineFeed)) {
      yield* line.add(rest.subarray(0, end));
      yield* line.end();
      rest = rest.subarray(end + 1);
    }
    yield* line.add(rest);
  }
  yield* line.end();
}

/** The line that is being read. */
class Line {
  readonly #limit: number;
  #parts: Uint8Array[] = [];
  #size = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  *add(part: Uint8Array): Generator<BodyError> {
    const wasTooLarge = this.#size > this.#limit;
    this.#size += part.length;
    if (this.#size <= this.#limit) {
      if (part.length > 0) this.#parts.push(part);
      return;
    }
    this.#parts = [];
    // Said at once: nobody knows whether the line ever ends.
    if (!wasTooLarge) yield new BodyError('too-large', `The line is larger than ${this.#limit} bytes`);
  }

  *end(): Generator<string | BodyError> {
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#size = 0;
    if (!isUtf8(bytes)) {
      yield new BodyError('not-utf-8', 'The line is not UTF-8');
      return;
    }
    const text = bytes.toString('utf8');
    if (text.trim() !== '') yield text;
  }
}
