import type { Revision } from '../call.ts';
import { r20250326 } from './r2025-03-26.ts';
import { r20250618 } from './r2025-06-18.ts';
import { r20251125 } from './r2025-11-25.ts';
import { r20260728 } from './r2026-07-28.ts';
import type { Wire } from './revision.ts';

/** Who gets a session: everybody, who begins with `initialize`, or nobody. */
export type Mode = 'stateful' | 'stateful-for-initialize' | 'stateless';

/** The wire rules of a revision. */
export const wires: Readonly<Record<Revision, Wire>> = {
  '2025-03-26': r20250326,
  '2025-06-18': r20250618,
  '2025-11-25': r20251125,
  '2026-07-28': r20260728,
};

const handshakes: readonly Revision[] = ['2025-11-25', '2025-06-18', '2025-03-26'];

/**
 * The versions that `server/discover` and version errors name, newest first.
 *
 * `stateless` names only the revision that was made for it, although it answers handshakes too; `stateful` has no use
 * for a revision without sessions.
 */
export const offered: Readonly<Record<Mode, readonly Revision[]>> = {
  stateful: handshakes,
  'stateful-for-initialize': ['2026-07-28', ...handshakes],
  stateless: ['2026-07-28'],
};

/** The rules of a revision with a handshake; `undefined` for any other text. */
export function handshakeWireOf(version: string | undefined): Wire | undefined {
  const revision = handshakes.find((handshake) => handshake === version);
  return revision === undefined ? undefined : wires[revision];
}

/** The revision that `initialize` agrees on: what was asked for, or else the newest that has a handshake. */
export function negotiate(version: string): Wire {
  return handshakeWireOf(version) ?? r20251125;
}
