import { type Call, type Dispatch, type Revision, RpcError } from './call.ts';
import { complete } from './complete.ts';
import type { Exchange } from './exchange.ts';
import type { Hub } from './hub.ts';
import { invoke, type Running } from './invoke.ts';
import type { Log } from './log.ts';
import { page } from './page.ts';
import type { ResourceResult, Tool } from './offered.ts';
import type { Registry } from './registry.ts';
import { failed, promptResult, resourceResult, type Result, toolResult } from './results.ts';
import { codes, isMembers } from './rpc.ts';
import { faultsOf } from './schema.ts';
import type { Json, Session } from './session.ts';
import { Subscriptions } from './subscriptions.ts';
import { longestUri } from './uri-template.ts';

export interface DispatcherOptions {
  /** Milliseconds since 1970, by the clock of the sessions. */
  readonly now?: (() => number) | undefined;
  readonly log?: Log;
}

/** Runs what a registry offers. */
export class Dispatcher implements Dispatch {
  readonly #registry: Registry;
  readonly #running: Running;
  readonly #subscriptions: Subscriptions;
  readonly #unsubscribe: () => void;

  constructor(registry: Registry, hub: Hub, { now = Date.now, log = () => undefined }: DispatcherOptions = {}) {
    this.#registry = registry;
    this.#running = { hub, now, log };
    this.#subscriptions = new Subscriptions(hub);
    this.#unsubscribe = registry.subscribe((change) => this.#subscriptions.announce(change));
  }

  /** Stops telling the hub of the registry's changes. */
  close(): void {
    this.#unsubscribe();
  }

  implements(method: string, revision: Revision): boolean {
    switch (method) {
      case 'tools/list':
      case 'tools/call':
        return this.#registry.offers('tools');
      case 'resources/list':
      case 'resources/templates/list':
      case 'resources/read':
        return this.#registry.offers('resources');
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return this.#registry.offers('resources') && revision !== '2026-07-28';
      case 'prompts/list':
      case 'prompts/get':
        return this.#registry.offers('prompts');
      case 'completion/complete':
        return this.#completes();
      default:
        return false;
    }
  }

  describe(_revision: Revision, streams: boolean) {
    const registry = this.#registry;
    const { info, instructions } = registry;
    const changes: Result = streams ? { listChanged: true } : {};
    const capabilities: { [name: string]: Json } = { logging: {} };
    if (registry.offers('tools')) capabilities.tools = changes;
    if (registry.offers('resources')) capabilities.resources = streams ? { subscribe: true, ...changes } : {};
    if (registry.offers('prompts')) capabilities.prompts = changes;
    if (this.#completes()) capabilities.completions = {};
    return { serverInfo: info, capabilities, ...(instructions !== undefined && { instructions }) };
  }

  async request(call: Call): Promise<Result> {
    const { method, params, revision } = call;
    const { tools, resources, templates, prompts } = this.#registry;
    if (!this.implements(method, revision)) throw new RpcError(codes.method, 'Method not found');
    switch (method) {
      case 'tools/call':
        return this.#callTool(call);
      case 'tools/list':
        return page('tools', tools, params.cursor);
      case 'resources/list':
        return page('resources', resources, params.cursor);
      case 'resources/templates/list':
        return page('resourceTemplates', templates, params.cursor);
      case 'resources/read':
        return this.#readResource(call);
      case 'resources/subscribe':
        return this.#subscribe(call, (session, uri) => this.#subscriptions.add(session, uri));
      case 'resources/unsubscribe':
        return this.#subscribe(call, (session, uri) => this.#subscriptions.remove(session, uri));
      case 'prompts/list':
        return page('prompts', prompts, params.cursor);
      case 'prompts/get':
        return this.#getPrompt(call);
      default:
        return complete(call, this.#registry, this.#running);
    }
  }

  async #callTool(call: Call): Promise<Result> {
    const { name } = call.params;
    const tool = typeof name === 'string' ? this.#registry.tools.get(name) : undefined;
    if (tool === undefined) throw new RpcError(codes.params, 'Unknown tool');
    const parsed = tool.input.safeParse(argumentsOf(call));
    if (!parsed.success) return failed(`The arguments do not fit: ${faultsOf(parsed.error, 'arguments')}`);
    const run = async (exchange: Exchange) => runTool(tool, parsed.data, exchange);
    return invoke(call, { mayAsk: true, run, fail: failed }, this.#running);
  }

  async #readResource(call: Call): Promise<Result> {
    const uri = uriOf(call);
    const found = this.#find(uri);
    if (found === undefined) throw notFound(call, uri);
    const run = async (exchange: Exchange) => {
      const result = resourceResult(uri, found.mimeType, await found.read(exchange));
      if (result === undefined) throw notFound(call, uri);
      return result;
    };
    return invoke(call, { mayAsk: true, run, fail: throwInternal }, this.#running);
  }

  async #subscribe(call: Call, change: (session: Session, uri: string) => Promise<void>): Promise<Result> {
    const uri = uriOf(call);
    if (call.session === null) throw new RpcError(codes.params, 'A subscription needs a session');
    if (this.#find(uri) === undefined) throw notFound(call, uri);
    await change(call.session, uri);
    return {};
  }

  async #getPrompt(call: Call): Promise<Result> {
    const { name } = call.params;
    const prompt = typeof name === 'string' ? this.#registry.prompts.get(name) : undefined;
    if (prompt === undefined) throw new RpcError(codes.params, 'Unknown prompt');
    const parsed = prompt.input.safeParse(argumentsOf(call));
    if (!parsed.success) {
      throw new RpcError(codes.params, `The arguments do not fit: ${faultsOf(parsed.error, 'arguments')}`);
    }
    const run = async (exchange: Exchange) =>
      promptResult(prompt, await prompt.handler(parsed.data as never, exchange));
    return invoke(call, { mayAsk: true, run, fail: throwInternal }, this.#running);
  }

  #find(uri: string) {
    const { resources, templates } = this.#registry;
    const resource = resources.get(uri);
    if (resource !== undefined) {
      const read = (exchange: Exchange): ResourceResult | Promise<ResourceResult> => resource.handler(uri, exchange);
      return { mimeType: resource.mimeType, read };
    }
    for (const { template, mimeType, handler } of templates.values()) {
      const variables = template.match(uri);
      if (variables === undefined) continue;
      return { mimeType, read: (exchange: Exchange) => handler(variables as never, exchange, uri) };
    }
    return undefined;
  }

  #completes(): boolean {
    const { prompts, templates } = this.#registry;
    const some = [...prompts.values(), ...templates.values()];
    return some.some((one) => Object.keys(one.complete).length > 0);
  }
}

async function runTool(tool: Tool, args: unknown, exchange: Exchange): Promise<Result> {
  return toolResult(tool, await tool.handler(args as never, exchange), exchange.revision);
}

function argumentsOf({ params }: Call): object {
  const { arguments: given = {} } = params;
  if (!isMembers(given)) throw new RpcError(codes.params, 'params.arguments: expected an object');
  return given;
}

function uriOf({ params }: Call): string {
  const { uri } = params;
  if (typeof uri !== 'string' || uri.length > longestUri) {
    throw new RpcError(codes.params, `params.uri: expected a URI of at most ${longestUri} characters`);
  }
  return uri;
}

function notFound({ revision }: Call, uri: string): RpcError {
  const code = revision === '2026-07-28' ? codes.params : codes.resourceNotFound;
  return new RpcError(code, 'Resource not found', { uri });
}

function throwInternal(text: string): never {
  throw new RpcError(codes.internal, text);
}
