import type { RequestId } from './call.ts';
import type { Session } from './session.ts';

/** Takes messages that are not part of a call: an event stream, or the one output of stdio. */
export interface Channel {
  /** Returns whether the message was taken. */
  send(json: string): boolean;
  /** Shows a sign of life, where that says anything. */
  comment(): void;
  end(): void;
  /** Runs `listener` once, when nothing more is taken. */
  onClose(listener: () => void): void;
}

/** A running call, as far as its session can end it. */
export interface Cancellable {
  readonly id: RequestId;
  cancel(): void;
  endSession(): void;
}

interface Present {
  readonly calls: Set<Cancellable>;
  readonly streams: Channel[];
  readonly others: Set<Channel>;
}

/** What is open in this process for each session: its running calls, its GET streams, newest last, and other streams. */
export class Live {
  readonly #sessions = new Map<string, Present>();
  readonly #watched = new WeakSet<Promise<void>>();

  enter(session: Session, call: Cancellable): void {
    this.#at(session).calls.add(call);
  }

  leave({ id }: Session, call: Cancellable): void {
    const present = this.#sessions.get(id);
    present?.calls.delete(call);
    this.#prune(id, present);
  }

  open(session: Session, stream: Channel): void {
    const { id } = session;
    this.#at(session).streams.push(stream);
    stream.onClose(() => {
      const present = this.#sessions.get(id);
      present?.streams.splice(present.streams.indexOf(stream), 1);
      this.#prune(id, present);
    });
  }

  /** Ends a stream with its session; no message is sent on it from here. Returns what is to be called when it has ended. */
  accompany(session: Session, stream: Channel): () => void {
    this.#at(session).others.add(stream);
    return () => {
      const present = this.#sessions.get(session.id);
      present?.others.delete(stream);
      this.#prune(session.id, present);
    };
  }

  /** Cancels the calls of that session whose id is `id`, JSON type included. Others have their own ids. */
  cancel(sessionId: string, id: unknown): void {
    for (const call of [...(this.#sessions.get(sessionId)?.calls ?? [])]) {
      if (call.id === id) call.cancel();
    }
  }

  /** Sends a message on exactly one GET stream of the session, the newest that takes it. Returns whether one did. */
  send(sessionId: string, json: string): boolean {
    const streams = this.#sessions.get(sessionId)?.streams ?? [];
    for (let at = streams.length - 1; at >= 0; at -= 1) {
      if (streams[at]?.send(json)) return true;
    }
    return false;
  }

  /** Sends a message to every session that has a GET stream, each on one of them. */
  sendToAll(json: string): void {
    for (const sessionId of [...this.#sessions.keys()]) this.send(sessionId, json);
  }

  /** Ends what is open for a session that has ended. */
  end(sessionId: string): void {
    const present = this.#sessions.get(sessionId);
    if (present === undefined) return;
    for (const call of [...present.calls]) call.endSession();
    for (const stream of [...present.streams, ...present.others]) stream.end();
  }

  #at({ id, ended }: Session): Present {
    // A promise keeps whoever waits for it. One waits for all that is open, however often that is.
    if (!this.#watched.has(ended)) {
      this.#watched.add(ended);
      void ended.then(() => this.end(id));
    }
    let present = this.#sessions.get(id);
    if (present === undefined) {
      present = { calls: new Set(), streams: [], others: new Set() };
      this.#sessions.set(id, present);
    }
    return present;
  }

  #prune(sessionId: string, present: Present | undefined): void {
    if (present === undefined || present.calls.size > 0 || present.streams.length > 0) return;
    if (present.others.size === 0) this.#sessions.delete(sessionId);
  }
}
