import { BucketError } from './bucket/bucket.ts';

/** What is kept of the event streams of one session, at most. */
export const journalLimits = {
  /** Events. */
  events: 1000,
  /** Bytes of their messages. */
  bytes: 4 * 1024 * 1024,
  /** Streams, those included that have no event yet. */
  streams: 100,
  /** Bytes of messages in the journal itself; beyond, its messages move to a piece. */
  inline: 8 * 1024,
} as const;

/** An event as it is stored: its stream, its position there, from 1, and the message. */
export type StoredEvent = readonly [stream: string, position: number, json: string];

/** Events under a key of their own. */
interface Piece {
  readonly at: string;
  readonly count: number;
  readonly bytes: number;
  /** The position of the last event of each stream that is in it. */
  readonly last: Readonly<Record<string, number>>;
}

interface StreamState {
  /** The position of its last event; 0 if there is none yet. */
  readonly last: number;
  /** When the process that runs its call last showed that it lives, in milliseconds since 1970. */
  readonly seen: number;
  /** The id of its call; absent for several calls at once. */
  readonly call?: string | number;
  readonly ended?: true;
  /** Names the connection that resumed it last. */
  readonly reader?: string;
}

/** A journal as it is stored. What `stored-form.md` describes. */
export interface JournalRecord {
  readonly v: 1;
  /** Oldest first. */
  readonly streams: Readonly<Record<string, StreamState>>;
  /** Oldest first; every event in them is older than those in `events`. */
  readonly pieces: readonly Piece[];
  readonly events: readonly StoredEvent[];
}

/** What is added to a journal. */
export type Addition =
  | {
      readonly kind: 'open';
      readonly stream: string;
      readonly now: number;
      readonly call?: string | number | undefined;
    }
  | { readonly kind: 'seen'; readonly stream: string; readonly now: number }
  | { readonly kind: 'end'; readonly stream: string }
  | { readonly kind: 'event'; readonly stream: string; readonly position: number; readonly json: string }
  | { readonly kind: 'resume'; readonly stream: string; readonly reader: string }
  /** Ends a stream whose process has gone, unless it was seen after `seen`, with a last message if there is one. */
  | { readonly kind: 'abandon'; readonly stream: string; readonly seen: number; readonly json: string | undefined };

/** A journal after something was added, what to write before it and what to delete after. */
export interface Added {
  readonly record: JournalRecord;
  readonly before: { readonly at: string; readonly events: readonly StoredEvent[] } | undefined;
  readonly after: readonly string[];
}

export const emptyJournal: JournalRecord = { v: 1, streams: {}, pieces: [], events: [] };

/** Reads a journal. Fails with `BucketError` of code `corrupt` if it is none, or of another version. */
export function readJournal(content: string): JournalRecord {
  let record: unknown;
  try {
    record = JSON.parse(content);
  } catch (error) {
    throw new BucketError('corrupt', 'cannot read a journal: it is no JSON', { cause: error });
  }
  if (typeof record === 'object' && record !== null && 'v' in record && record.v === 1) return record as JournalRecord;
  throw new BucketError('corrupt', 'cannot read a journal: expected version 1');
}

/** The keys of its pieces, none in what is left of a deleted one; `undefined` if it cannot be read. */
export function piecesIn(content: string): string[] | undefined {
  try {
    return (readJournal(content).pieces ?? []).map(({ at }) => at);
  } catch (error) {
    if (error instanceof BucketError && error.code === 'corrupt') return undefined;
    throw error;
  }
}

/** The state of a stream; `undefined` if the journal does not know it. */
export function streamOf({ streams }: JournalRecord, stream: string): StreamState | undefined {
  return Object.hasOwn(streams, stream) ? streams[stream] : undefined;
}

/** The oldest piece that holds events of a stream after a position. */
export function pieceAfter({ pieces }: JournalRecord, stream: string, position: number): Piece | undefined {
  return pieces.find(({ last }) => (last[stream] ?? 0) > position);
}

/** The events of a stream after a position. */
export function eventsAfter(events: readonly StoredEvent[], stream: string, position: number): StoredEvent[] {
  return events.filter(([of, at]) => of === stream && at > position);
}

/** Adds to a journal within its limits: the oldest events go first. `newPiece` gives a key for events kept apart. */
export function add(record: JournalRecord, additions: readonly Addition[], newPiece: () => string): Added {
  const streams = { ...record.streams };
  let events = [...record.events];
  for (const addition of additions) apply(streams, events, addition);
  const pieces = [...record.pieces];
  let before: Added['before'];
  if (bytesOf(events) > journalLimits.inline) {
    before = { at: newPiece(), events };
    pieces.push(pieceOf(before.at, events));
    events = [];
  }
  const after: string[] = [];
  const over = excess(pieces, events);
  while (over.events > 0 || over.bytes > 0) {
    const piece = pieces.shift();
    if (piece === undefined) break;
    over.events -= piece.count;
    over.bytes -= piece.bytes;
    if (piece.at === before?.at) before = undefined;
    else after.push(piece.at);
  }
  forget(streams, pieces, events);
  return { record: { v: 1, streams, pieces, events }, before, after };
}

function apply(streams: Record<string, StreamState>, events: StoredEvent[], addition: Addition): void {
  const { stream } = addition;
  if (addition.kind === 'open') {
    const { now, call } = addition;
    streams[stream] = { last: 0, seen: now, ...(call !== undefined && { call }) };
    return;
  }
  const state = Object.hasOwn(streams, stream) ? streams[stream] : undefined;
  if (state === undefined) return;
  if (addition.kind === 'resume') streams[stream] = { ...state, reader: addition.reader };
  // Whoever gave it up has said how it ended.
  else if (!state.ended) streams[stream] = advanced(state, events, addition);
}

function advanced(state: StreamState, events: StoredEvent[], addition: Addition): StreamState {
  switch (addition.kind) {
    case 'event':
      events.push([addition.stream, addition.position, addition.json]);
      return { ...state, last: addition.position };
    case 'seen':
      return { ...state, seen: addition.now };
    case 'abandon': {
      if (state.seen > addition.seen) return state;
      if (addition.json === undefined) return { ...state, ended: true };
      events.push([addition.stream, state.last + 1, addition.json]);
      return { ...state, last: state.last + 1, ended: true };
    }
    case 'end':
      return { ...state, ended: true };
    default:
      return state;
  }
}

function pieceOf(at: string, events: readonly StoredEvent[]): Piece {
  const last: Record<string, number> = {};
  for (const [stream, position] of events) last[stream] = position;
  return { at, count: events.length, bytes: bytesOf(events), last };
}

function bytesOf(events: readonly StoredEvent[]): number {
  return events.reduce((sum, [, , json]) => sum + Buffer.byteLength(json), 0);
}

function excess(pieces: readonly Piece[], events: readonly StoredEvent[]): { events: number; bytes: number } {
  const count = pieces.reduce((sum, piece) => sum + piece.count, events.length);
  const bytes = pieces.reduce((sum, piece) => sum + piece.bytes, bytesOf(events));
  return { events: count - journalLimits.events, bytes: bytes - journalLimits.bytes };
}

/** Forgets the streams that nobody could read to their end any more, and the oldest beyond the limit. */
function forget(streams: Record<string, StreamState>, pieces: readonly Piece[], events: readonly StoredEvent[]): void {
  const isKept = (stream: string, position: number) =>
    events.some(([of, at]) => of === stream && at === position) || pieces.some(({ last }) => last[stream] === position);
  for (const [stream, { last, ended }] of Object.entries(streams)) {
    if (ended && last > 0 && !isKept(stream, last)) delete streams[stream];
  }
  const names = Object.keys(streams);
  const ended = names.filter((name) => streams[name]?.ended);
  const open = names.filter((name) => !streams[name]?.ended);
  const excessive = Math.max(0, names.length - journalLimits.streams);
  for (const stream of [...ended, ...open].slice(0, excessive)) delete streams[stream];
}
