import { randomBytes } from 'node:crypto';

/** What the id of an event names: a stream of its session, and a place in it. */
export interface EventPlace {
  readonly stream: string;
  /** How many events of the stream came before the next one: 0 at its beginning. */
  readonly position: number;
}

const shape = /^([A-Za-z0-9_-]{16})\.(0|[1-9]\d{0,14})$/;

/** A name for a new stream: 96 random bits, which no other stream of any session has. */
export function newStream(): string {
  return randomBytes(12).toString('base64url');
}

/** The `id` of an event. It says nothing of its session, and is of no use without it. */
export function eventId(stream: string, position: number): string {
  return `${stream}.${position}`;
}

/** Reads a `Last-Event-ID`; `undefined` if no event ever had it. */
export function readEventId(id: string): EventPlace | undefined {
  const [, stream, position] = shape.exec(id) ?? [];
  return stream === undefined ? undefined : { stream, position: Number(position) };
}
