import { Writable } from 'node:stream';

/** The output of this process, for one writer. */
export interface Claimed {
  readonly output: Writable;
  /** Gives it back to everybody. */
  release(): void;
}

/**
 * Takes stdout for the protocol: what anything else in this process prints there goes to stderr from now on. A child
 * process that inherits it, or a write to the file descriptor, is beyond reach.
 */
export function claimStdout(): Claimed {
  const { stdout, stderr } = process;
  const own = stdout.write;
  const write = own.bind(stdout);
  // On the stream itself, so that it holds for whoever has it already: `console` does.
  stdout.write = stderr.write.bind(stderr) as typeof own;
  const output = new Writable({
    decodeStrings: false,
    write: (text: string, _encoding, done) => void write(text, done),
    // One write for all that waits.
    writev: (chunks, done) => void write(chunks.map(({ chunk }) => chunk).join(''), done),
  });
  // A write that fails says so to its writer; unheard, the same news would end the process.
  const heard = (): void => undefined;
  stdout.on('error', heard);
  const release = (): void => {
    stdout.write = own;
    stdout.off('error', heard);
  };
  return { output, release };
}
