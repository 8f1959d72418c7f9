import { handshakeWire } from './revision.ts';
import type { Wire } from './revision.ts';

/** One message a body; form elicitation. */
export const r20250618: Wire = { ...handshakeWire, revision: '2025-06-18' };
