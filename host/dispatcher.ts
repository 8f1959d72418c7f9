import { createHash } from 'node:crypto';
import { BucketError } from './bucket/bucket.ts';
import { type Call, type Dispatch, type Revision, RpcError } from './call.ts';
import { askTimeout, Exchange, type Known } from './exchange.ts';
import type { Hub } from './hub.ts';
import { Answer, canAnswer, NeedInput, type Question } from './questions.ts';
import type { Registry, Tool, ToolResult } from './registry.ts';
import { SessionError, type Json, type Session } from './session.ts';

type Result = { readonly [name: string]: Json };

/** How often a handler may ask within one pushed call before it is given up. */
const pushedRounds = 8;
const pageSize = 100;
const nothingKnown: Known = { answers: new Map(), state: undefined };

/** Runs what a registry offers. */
export class Dispatcher implements Dispatch {
  readonly #registry: Registry;
  readonly #hub: Hub;

  constructor(registry: Registry, hub: Hub) {
    this.#registry = registry;
    this.#hub = hub;
  }

  implements(method: string, _revision: Revision): boolean {
    return method === 'tools/list' || method === 'tools/call';
  }

  describe(_revision: Revision, _streams: boolean) {
    const { info, instructions } = this.#registry;
    const capabilities = { tools: {}, logging: {} };
    return { serverInfo: info, capabilities, ...(instructions !== undefined && { instructions }) };
  }

  async request(call: Call): Promise<Result> {
    if (call.method === 'tools/list') return this.#list(call);
    if (call.method === 'tools/call') return this.#call(call);
    throw new RpcError(-32601, 'Method not found');
  }

  #list({ params }: Call): Result {
    const { cursor } = params;
    const names = [...this.#registry.tools.keys()];
    let start = 0;
    if (cursor !== undefined && cursor !== '') {
      const last = typeof cursor === 'string' ? Buffer.from(cursor, 'base64url').toString() : '';
      start = names.indexOf(last) + 1;
      if (start === 0) throw new RpcError(-32602, 'Invalid cursor');
    }
    const page = names.slice(start, start + pageSize);
    const tools = page.map((name) => this.#registry.tools.get(name)?.shown ?? {});
    const last = start + pageSize < names.length ? page.at(-1) : undefined;
    return { tools, ...(last !== undefined && { nextCursor: Buffer.from(last).toString('base64url') }) };
  }

  async #call(call: Call): Promise<Result> {
    const { name, arguments: given = {} } = call.params;
    if (typeof name !== 'string') throw new RpcError(-32602, 'params.name: expected the name of a tool');
    if (typeof given !== 'object' || given === null || Array.isArray(given)) {
      throw new RpcError(-32602, 'params.arguments: expected an object');
    }
    const tool = this.#registry.tools.get(name);
    if (tool === undefined) throw new RpcError(-32602, 'Unknown tool');
    const parsed = tool.input.safeParse(given);
    if (!parsed.success) {
      const wrong = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'arguments'}: ${message}`);
      return failed(`The arguments do not fit: ${wrong.join('; ')}`);
    }
    const binding = call.revision === '2026-07-28' ? bindingOf(call) : '';
    const spent = call.revision === '2026-07-28' ? await this.#redeem(call, binding) : undefined;
    return this.#run(call, tool, parsed.data, binding, spent ?? nothingKnown);
  }

  async #run(call: Call, tool: Tool, args: unknown, binding: string, first: Known): Promise<Result> {
    let known = first;
    for (let round = 0; ; round++) {
      const exchange = new Exchange(call, this.#hub, known);
      try {
        return resultOf(tool, await tool.handler(args as never, exchange));
      } catch (error) {
        if (error instanceof BucketError || error instanceof RpcError) throw error;
        if (!(error instanceof NeedInput)) return failed(messageOf(error));
        const [question] = Object.values(error.questions);
        if (question === undefined) return failed('The handler asked nothing');
        if (!call.canPush && call.revision !== '2026-07-28') return failed(messageOf(exchange.cannotAsk(question)));
        if (!call.canPush) return await this.#askLater(call, exchange, binding, known, error);
        if (round === pushedRounds) return failed(`The handler still asks after ${pushedRounds} rounds`);
        const answers = new Map(known.answers);
        try {
          for (const [key, asked] of Object.entries(error.questions)) {
            if (!answers.has(key)) answers.set(key, await exchange.push(asked, askTimeout));
          }
        } catch (failure) {
          if (failure instanceof BucketError || failure instanceof RpcError) throw failure;
          return failed(messageOf(failure));
        }
        known = { answers, state: error.state ?? known.state };
      } finally {
        exchange.end();
      }
    }
  }

  /** Leaves state and questions in the bucket, and asks by the result (2026-07-28, multi round-trip requests). */
  async #askLater(call: Call, exchange: Exchange, binding: string, known: Known, need: NeedInput): Promise<Result> {
    const open = Object.entries(need.questions).filter(([key]) => !known.answers.has(key));
    const asked = open.filter(([, question]) => canAnswer(call.clientCapabilities, question));
    const [first] = open;
    if (first === undefined) return failed('The handler asks what was answered already');
    if (asked.length === 0) throw exchange.cannotAsk(first[1]);
    const answers = Object.fromEntries(
      [...known.answers].map(([key, { action, content }]) => [key, { action, content }]),
    );
    const attributes = {
      state: JSON.stringify(need.state ?? known.state ?? null),
      answers: JSON.stringify(answers),
      questions: JSON.stringify(Object.fromEntries(asked)),
    };
    const record = await call.sessions.create('request-state', call.scope, attributes, { binding });
    const inputRequests = Object.fromEntries(asked.map(([key, { method, params }]) => [key, withMode(method, params)]));
    return { resultType: 'input_required', inputRequests, requestState: record.id };
  }

  /** What an earlier round left, spent by this call; `undefined` for a first call. */
  async #redeem(call: Call, binding: string): Promise<Known | undefined> {
    const { requestState, inputResponses } = call.params;
    const responses = inputResponses ?? {};
    if (typeof responses !== 'object' || Array.isArray(responses)) {
      throw new RpcError(-32602, 'params.inputResponses: expected an object');
    }
    if (requestState === undefined) return undefined;
    const invalid = () => new RpcError(-32602, 'Invalid requestState');
    if (typeof requestState !== 'string') throw invalid();
    const record = await call.sessions.open('request-state', call.scope, requestState);
    if (record === undefined) throw invalid();
    const answers = this.#answersOf(record, responses as { readonly [key: string]: Json });
    try {
      await record.redeem(binding);
    } catch (error) {
      if (error instanceof SessionError) throw invalid();
      throw error;
    }
    const state: Json = JSON.parse(record.attribute('state') ?? 'null');
    return { answers, state: state ?? undefined };
  }

  #answersOf(record: Session, responses: { readonly [key: string]: Json }): Map<string, Answer> {
    const earlier: Record<string, Json> = JSON.parse(record.attribute('answers') ?? '{}');
    const questions: Record<string, Question> = JSON.parse(record.attribute('questions') ?? '{}');
    const answers = new Map(Object.entries(earlier).map(([key, answer]) => [key, Answer.of(answer)]));
    for (const key of Object.keys(questions)) {
      const response = Object.hasOwn(responses, key) ? responses[key] : undefined;
      if (response === undefined) continue;
      if (typeof response !== 'object' || response === null || Array.isArray(response)) {
        throw new RpcError(-32602, 'params.inputResponses: expected an object for each key');
      }
      answers.set(key, Answer.of(response));
    }
    return answers;
  }
}

/** What a request state is bound to: the method, its target and all arguments, in one spelling. */
function bindingOf({ method, params }: Call): string {
  const { _meta, inputResponses, requestState, ...call } = params;
  return createHash('sha256')
    .update(canonical({ method, ...call }))
    .digest('hex');
}

function canonical(value: Json | undefined): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const members = Object.entries(value as { [name: string]: Json }).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(',')}}`;
}

function withMode(method: Question['method'], params: Question['params']): Json {
  return {
    method,
    params: method === 'elicitation/create' && params.mode === undefined ? { mode: 'form', ...params } : params,
  };
}

function resultOf(tool: Tool, result: ToolResult): Result {
  if (
    typeof result === 'object' &&
    result !== null &&
    !Array.isArray(result) &&
    'content' in result &&
    Array.isArray(result.content)
  ) {
    return result as Result;
  }
  if (typeof result === 'string') return { content: [{ type: 'text', text: result }] };
  const text = JSON.stringify(result) ?? 'null';
  const isObject = typeof result === 'object' && result !== null && !Array.isArray(result);
  if (tool.output !== undefined) {
    const parsed = tool.output.safeParse(result);
    if (!parsed.success) return failed('The tool returned something that does not fit its output schema');
  }
  return { content: [{ type: 'text', text }], ...(isObject && { structuredContent: result as Json }) };
}

function failed(text: string): Result {
  return { content: [{ type: 'text', text }], isError: true };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : 'the tool failed';
}
