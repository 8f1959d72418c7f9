import { createHash } from 'node:crypto';

/** How much an event matters. */
export type LogLevel = 'debug' | 'info' | 'warning' | 'error';

/** What an event carries: small plain values. Never an id, a namespace, an owner, a credential or a stored value. */
export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/** Takes one event, such as `session created`. */
export type Log = (level: LogLevel, event: string, fields?: LogFields) => void;

/** What a log says of something thrown that nobody expected. */
export function traceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const trace = error.stack ?? error.message;
  // Parsers quote what they could not read, and that may be a stored value.
  return error instanceof SyntaxError ? trace.replace(error.message, 'unexpected text') : trace;
}

/** The first 16 hex digits of SHA-256 over the UTF-8 of `text`: tells two ids apart without showing them. */
export function fingerprint(text: string | Uint8Array): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}
