import { handshakeWire } from './revision.ts';
import type { Wire } from './revision.ts';

/** Batches, no version header, no questions in the middle of a call. */
export const r20250326: Wire = { ...handshakeWire, revision: '2025-03-26', batches: true, pushes: false };
