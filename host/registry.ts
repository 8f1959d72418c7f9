import * as z from 'zod';
import type { Exchange } from './exchange.ts';
import type { Implementation } from './call.ts';
import type { Json } from './session.ts';

/** What a tool handler may return: text, a value for `structuredContent`, or a whole result with a `content` list. */
export type ToolResult = string | Json | { readonly content: readonly object[]; readonly [member: string]: unknown };

/** What a tool says about itself (tools page, 2025-11-25, `ToolAnnotations`). */
export interface ToolAnnotations {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

export interface ToolOptions<I extends z.ZodObject, O extends z.ZodObject> {
  readonly title?: string;
  readonly description?: string;
  /** The arguments. No arguments if absent. */
  readonly input?: I;
  /** What `structuredContent` is checked against. */
  readonly output?: O;
  readonly annotations?: ToolAnnotations;
}

export type ToolHandler<I extends z.ZodObject> = (
  args: z.output<I>,
  exchange: Exchange,
) => ToolResult | Promise<ToolResult>;

/** A tool as it is registered. */
export interface Tool {
  readonly input: z.ZodObject;
  readonly output: z.ZodObject | undefined;
  /** How `tools/list` shows it. */
  readonly shown: { readonly [member: string]: Json };
  readonly handler: (args: never, exchange: Exchange) => ToolResult | Promise<ToolResult>;
}

const brand = Symbol.for('mcp-session.registry');
const nameShape = /^[A-Za-z0-9_.-]{1,128}$/;
const nothing = z.object({});

/** What a server offers. */
export class Registry {
  readonly [brand] = true;
  readonly info: Implementation;
  readonly instructions: string | undefined;
  readonly tools = new Map<string, Tool>();

  constructor({ instructions, ...info }: Implementation & { readonly instructions?: string }) {
    for (const member of ['name', 'version'] as const) {
      if (typeof info[member] !== 'string' || info[member] === '')
        throw new TypeError(`Registry: expected a ${member}`);
    }
    this.info = info as Implementation;
    this.instructions = instructions;
  }

  /** Whether something is a registry, also one of another copy of this package. */
  static is(value: unknown): value is Registry {
    return typeof value === 'object' && value !== null && brand in value;
  }

  /**
   * Registers a tool. Its handler gets the arguments, checked, and the exchange of the call; what it throws is the tool's
   * error result.
   */
  tool<I extends z.ZodObject = typeof nothing, O extends z.ZodObject = z.ZodObject>(
    name: string,
    { title, description, input, output, annotations }: ToolOptions<I, O>,
    handler: ToolHandler<I>,
  ): void {
    if (!nameShape.test(name)) {
      throw new TypeError(`tool "${name}": expected a name of 1 to 128 characters of A-Z a-z 0-9 _ . -`);
    }
    if (this.tools.has(name)) throw new TypeError(`tool "${name}": there is one of that name already`);
    const shown: Record<string, Json> = { name };
    if (title !== undefined) shown.title = title;
    if (description !== undefined) shown.description = description;
    shown.inputSchema = schemaOf(name, input ?? nothing, 'input');
    if (output !== undefined) shown.outputSchema = schemaOf(name, output, 'output');
    if (annotations !== undefined) shown.annotations = { ...annotations } as Json;
    const registered = { input: input ?? nothing, output, shown, handler: handler as Tool['handler'] };
    this.tools.set(name, registered);
  }
}

function schemaOf(name: string, schema: z.ZodObject, io: 'input' | 'output'): Json {
  try {
    return z.toJSONSchema(schema, { io }) as unknown as Json;
  } catch (error) {
    throw new TypeError(`tool "${name}": its ${io} cannot be said in JSON Schema`, { cause: error });
  }
}
