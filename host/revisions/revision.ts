import type { Implementation, Revision } from '../call.ts';
import type { Members } from '../rpc.ts';

/** How one protocol revision differs from the others on the wire. */
export interface Wire {
  readonly revision: Revision;
  /** Whether it begins with `initialize` and may have sessions; otherwise every request stands alone. */
  readonly handshake: boolean;
  /** Whether a body may be an array of messages. */
  readonly batches: boolean;
  /** Whether questions to the client travel as JSON-RPC requests on the stream of a call. */
  readonly pushes: boolean;
  /** Whether a stream begins with an event that has an id and no message: the client comes back if the connection ends. */
  readonly primes: boolean;
  /** Whether a client that goes away cancels its call also within a session. */
  readonly disconnectCancels: boolean;
  /** Whether a client says with each request how severe a log message must be; otherwise once for its session. */
  readonly logLevelByRequest: boolean;
  /** The code that says that a resource does not exist. */
  readonly resourceNotFound: number;
  /** The HTTP status of an answer that is nothing but an error of that code; 200 for every other. */
  readonly statuses: ReadonlyMap<number, number>;
  /** A result with the members that this revision adds. */
  complete(method: string, result: Members, serverInfo: Implementation): Members;
}

const noStatuses: ReadonlyMap<number, number> = new Map();

/** What the revisions with a handshake have in common. */
export const handshakeWire = {
  handshake: true,
  batches: false,
  pushes: true,
  primes: false,
  disconnectCancels: false,
  logLevelByRequest: false,
  resourceNotFound: -32002,
  statuses: noStatuses,
  complete: (_method: string, result: Members): Members => result,
} as const satisfies Omit<Wire, 'revision'>;
