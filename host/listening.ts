import type { Implementation, Notification, RequestId } from './call.ts';
import type { Channel } from './live.ts';
import type { Open } from './open.ts';
import { codes, encodeResult, isMembers, Refusal } from './rpc.ts';
import type { Members, RpcRequest } from './rpc.ts';
import { metaKeys, r20260728 } from './revisions/r2026-07-28.ts';
import type { Json } from './session.ts';

/** The kinds of change a listener may ask for by a switch: the capability that offers it, and what it brings. */
const kinds = [
  { name: 'toolsListChanged', capability: 'tools', method: 'notifications/tools/list_changed' },
  { name: 'promptsListChanged', capability: 'prompts', method: 'notifications/prompts/list_changed' },
  { name: 'resourcesListChanged', capability: 'resources', method: 'notifications/resources/list_changed' },
] as const;

/** One `subscriptions/listen` of 2026-07-28: a stream of the changes it asked for, until either side ends it. */
export class Listening implements Open {
  readonly #channel: Channel;
  readonly #id: RequestId;
  readonly #serverInfo: Implementation;
  readonly #methods: ReadonlySet<string>;
  readonly #resources: ReadonlySet<string>;

  /** Sends the acknowledgement. Throws {@link Refusal} if the request says not what it wants. */
  constructor(request: RpcRequest, capabilities: Members, serverInfo: Implementation, channel: Channel) {
    const wanted = request.params['notifications'];
    if (!isMembers(wanted)) {
      throw new Refusal(200, codes.params, 'The parameter notifications is missing', { id: request.id });
    }
    const honoured: Record<string, Json> = {};
    const methods = new Set<string>();
    for (const { name, capability, method } of kinds) {
      if (wanted[name] !== true || !offers(capabilities, capability, 'listChanged')) continue;
      honoured[name] = true;
      methods.add(method);
    }
    const uris = wanted['resourceSubscriptions'];
    const resources = Array.isArray(uris) ? uris.filter((uri) => typeof uri === 'string') : [];
    this.#resources = new Set(offers(capabilities, 'resources', 'subscribe') ? resources : []);
    if (this.#resources.size > 0) honoured['resourceSubscriptions'] = [...this.#resources];
    this.#channel = channel;
    this.#id = request.id;
    this.#serverInfo = serverInfo;
    this.#methods = methods;
    this.#send('notifications/subscriptions/acknowledged', { notifications: honoured });
  }

  /** Passes a change on, if it was asked for. */
  hear({ method, params = {} }: Notification): void {
    const uri = params['uri'];
    const updated = method === 'notifications/resources/updated' && typeof uri === 'string' && this.#resources.has(uri);
    if (updated || this.#methods.has(method)) this.#send(method, params);
  }

  tick(): void {
    this.#channel.comment();
  }

  drain(): void {
    const result = { _meta: { [metaKeys.subscription]: this.#id } };
    this.#channel.send(encodeResult(this.#id, r20260728.complete('subscriptions/listen', result, this.#serverInfo)));
    this.#channel.end();
  }

  abort(): void {
    this.drain();
  }

  #send(method: string, params: Members): void {
    const meta = isMembers(params['_meta']) ? params['_meta'] : {};
    const tagged = { ...params, _meta: { ...meta, [metaKeys.subscription]: this.#id } };
    this.#channel.send(JSON.stringify({ jsonrpc: '2.0', method, params: tagged }));
  }
}

function offers(capabilities: Members, capability: string, change: string): boolean {
  const offered = capabilities[capability];
  return isMembers(offered) && offered[change] === true;
}
