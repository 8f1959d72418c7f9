import type { Implementation } from './call.ts';
import { codes, isMembers, Refusal } from './rpc.ts';
import type { Members, RpcRequest } from './rpc.ts';
import { handshakeWireOf, negotiate, wires } from './revisions/all.ts';
import type { Wire } from './revisions/revision.ts';
import { isImplementation } from './revisions/r2026-07-28.ts';
import type { Session } from './session.ts';

/** The attributes in which a session remembers its handshake. */
export const attributes = {
  revision: 'revision',
  client: 'client-info',
  capabilities: 'client-capabilities',
  logLevel: 'log-level',
  initialized: 'initialized',
} as const;

/** What a client said in `initialize`, and what came of it. */
export interface Handshake {
  readonly wire: Wire;
  /** For a new session to remember. */
  readonly attributes: Readonly<Record<string, string>>;
}

/** Reads `initialize`. Throws {@link Refusal} if a required parameter is missing or malformed. */
export function readHandshake({ id, params }: RpcRequest): Handshake {
  const { protocolVersion, capabilities, clientInfo } = params;
  if (typeof protocolVersion !== 'string') throw malformed(id, 'protocolVersion');
  if (!isMembers(capabilities)) throw malformed(id, 'capabilities');
  if (!isImplementation(clientInfo)) throw malformed(id, 'clientInfo');
  const wire = negotiate(protocolVersion);
  return {
    wire,
    attributes: {
      [attributes.revision]: wire.revision,
      [attributes.client]: JSON.stringify(clientInfo),
      [attributes.capabilities]: JSON.stringify(capabilities),
    },
  };
}

/** The rules that a session agreed on when it began. */
export function wireOf(session: Session): Wire {
  return handshakeWireOf(session.attribute(attributes.revision)) ?? wires['2025-11-25'];
}

/** The client as it named itself when the session began. */
export function clientOf(session: Session): Implementation | undefined {
  const client = parsed(session.attribute(attributes.client));
  return isImplementation(client) ? client : undefined;
}

/** What the client could do when the session began. */
export function capabilitiesOf(session: Session): Members {
  const capabilities = parsed(session.attribute(attributes.capabilities));
  return isMembers(capabilities) ? capabilities : {};
}

function parsed(text: string | undefined): unknown {
  return text === undefined ? undefined : JSON.parse(text);
}

function malformed(id: RpcRequest['id'], name: string): Refusal {
  return new Refusal(200, codes.params, `The parameter ${name} of initialize is missing or malformed`, { id });
}
