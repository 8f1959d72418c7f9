import { RpcError } from '../../host/call.ts';
import type { Call, Dispatch, Revision } from '../../host/call.ts';
import type { Hub } from '../../host/hub.ts';
import type { Json } from '../../host/session.ts';

type Members = { readonly [name: string]: Json };
export type Tool = (call: Call, parameters: Members) => Promise<Members> | Members;

/** A gate that a test opens: `opened` resolves then. */
export class Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;

  constructor() {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.opened = promise;
    this.open = resolve;
  }
}

/** The dispatcher of a small server whose tools are the functions that a test gives. */
export class ToolDispatch implements Dispatch {
  readonly hub: Hub;
  readonly tools = new Map<string, Tool>();
  /** The calls that were seen, in order. */
  readonly seen: Call[] = [];

  constructor(hub: Hub, tools: Readonly<Record<string, Tool>> = {}) {
    this.hub = hub;
    for (const [name, tool] of Object.entries({ ...standardTools(hub), ...tools })) this.tools.set(name, tool);
  }

  async request(call: Call): Promise<Members> {
    this.seen.push(call);
    if (call.method === 'tools/list') {
      return { tools: [...this.tools.keys()].map((name) => ({ name, inputSchema: { type: 'object' } })) };
    }
    if (call.method === 'resources/read')
      throw new RpcError(-32002, 'Resource not found', { uri: call.params['uri'] ?? '' });
    const name = call.params['name'];
    const tool = typeof name === 'string' ? this.tools.get(name) : undefined;
    if (tool === undefined) throw new RpcError(-32602, 'Unknown tool');
    const parameters = call.params['arguments'];
    return await tool(call, typeof parameters === 'object' ? (parameters as Members) : {});
  }

  describe(_revision: Revision, streams: boolean): ReturnType<Dispatch['describe']> {
    return {
      serverInfo: { name: 'test', version: '1.0.0' },
      capabilities: {
        logging: {},
        tools: streams ? { listChanged: true } : {},
        resources: streams ? { subscribe: true } : {},
      },
      instructions: 'be gentle',
    };
  }

  implements(method: string, _revision: Revision): boolean {
    return ['tools/list', 'tools/call', 'resources/read'].includes(method);
  }
}

export function text(words: string): Members {
  return { content: [{ type: 'text', text: words }] };
}

function standardTools(hub: Hub): Record<string, Tool> {
  return {
    echo: (_call, { say = '' }) => text(String(say)),
    größe: () => text('big'),
    bump: async ({ session }) => {
      let count = 0;
      await session?.update((values) => {
        count = Number(values['count'] ?? 0) + 1;
        return { ...values, count };
      });
      return text(String(count));
    },
    progress: (call, { steps = 3 }) => {
      for (let progress = 1; progress <= Number(steps); progress += 1) {
        const { progressToken = null } = call;
        call.notify({ method: 'notifications/progress', params: { progressToken, progress } });
      }
      return text('done');
    },
    log: (call) => {
      if (call.logLevel !== undefined)
        call.notify({ method: 'notifications/message', params: { level: call.logLevel } });
      return text(call.logLevel ?? 'none');
    },
    whoami: (call) => {
      const { clientInfo = null, clientCapabilities, revision, canPush, scope } = call;
      const structuredContent = {
        clientInfo: clientInfo as Json,
        clientCapabilities,
        revision,
        canPush,
        owner: scope.owner ?? null,
      };
      return { content: [], structuredContent };
    },
    ask: async (call) => {
      const id = `question-of-call-${call.id}`;
      const params = { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } };
      await call.session?.ask(id, 'elicitation/create', params, Date.now() + 60_000);
      const woken = hub.wait(id, call.signal);
      call.push(id, 'elicitation/create', params);
      await woken;
      const answer = (await call.session?.question(id))?.answer;
      return text(JSON.stringify(answer ?? null));
    },
    silent: (call) => new Promise((resolve) => call.signal.addEventListener('abort', () => resolve(text('aborted')))),
    capability: () => {
      const requiredCapabilities = { sampling: {} };
      throw new RpcError(-32021, 'Needs sampling', { requiredCapabilities });
    },
    lateCapability: (call) => {
      call.notify({ method: 'notifications/progress', params: { progressToken: 1, progress: 1 } });
      throw new RpcError(-32021, 'Needs sampling', { requiredCapabilities: { sampling: {} } });
    },
    bug: () => {
      throw new TypeError('secret of the house');
    },
  };
}
