import { handshakeWire } from './revision.ts';
import type { Wire } from './revision.ts';

/** The newest revision with a handshake: URL elicitation, richer schemas, streams whose connection may end early. */
export const r20251125: Wire = { ...handshakeWire, revision: '2025-11-25', primes: true };
