import { handshakeWire } from './revision.ts';
import type { Wire } from './revision.ts';

/** The newest revision with a handshake: URL elicitation, richer schemas. */
export const r20251125: Wire = { ...handshakeWire, revision: '2025-11-25' };
