import { createHash } from 'node:crypto';
import type { Notification } from './call.ts';
import type { Hub } from './hub.ts';
import type { Session } from './session.ts';

/**
 * The resources that sessions subscribed to.
 *
 * Each is an attribute of its session, so that two requests at once lose nothing and any process knows of it. This process
 * remembers besides who subscribed through it, and tells those of a change.
 */
export class Subscriptions {
  readonly #hub: Hub;
  readonly #here = new Map<string, Set<string>>();

  constructor(hub: Hub) {
    this.#hub = hub;
  }

  async add(session: Session, uri: string): Promise<void> {
    await session.setAttribute(attributeOf(uri), uri);
    const ids = this.#here.get(uri) ?? new Set();
    this.#here.set(uri, ids);
    if (ids.has(session.id)) return;
    ids.add(session.id);
    void session.ended.then(() => this.#forget(session.id, uri));
  }

  async remove(session: Session, uri: string): Promise<void> {
    await session.setAttribute(attributeOf(uri), undefined);
    this.#forget(session.id, uri);
  }

  /** Passes a change on to all who hear of it. */
  announce(change: Notification): void {
    this.#hub.publish(change);
    const uri = change.params?.uri;
    if (change.method !== 'notifications/resources/updated' || typeof uri !== 'string') return;
    for (const id of this.#here.get(uri) ?? []) this.#hub.publish(change, id);
  }

  #forget(sessionId: string, uri: string): void {
    const ids = this.#here.get(uri);
    ids?.delete(sessionId);
    if (ids?.size === 0) this.#here.delete(uri);
  }
}

/** Whether a session, as it was loaded, is subscribed to a resource. */
export function isSubscribed(session: Session, uri: string): boolean {
  return session.attribute(attributeOf(uri)) !== undefined;
}

/** The attribute of one resource. The name of an attribute is short, a URI need not be. */
function attributeOf(uri: string): string {
  return `subscribed:${createHash('sha256').update(uri).digest('base64url')}`;
}
