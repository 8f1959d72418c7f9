import * as z from 'zod';
import type { Implementation, Notification } from './call.ts';
import { Dependency, type DependencyOptions } from './dependencies.ts';
import type { Exchange } from './exchange.ts';
import type {
  Awaitable,
  Completer,
  Completers,
  Prompt,
  PromptOptions,
  PromptResult,
  Resource,
  ResourceOptions,
  ResourceResult,
  Template,
  TemplateOptions,
  Tool,
  ToolHandler,
  ToolOptions,
} from './offered.ts';
import { jsonSchemaOf } from './schema.ts';
import type { Json } from './session.ts';
import { UriTemplate, type VariablesOf } from './uri-template.ts';

export type { ResourceResult, ToolHandler, ToolOptions, ToolResult } from './offered.ts';

type Members = { readonly [member: string]: Json };

const brand = Symbol.for('mcp-session.registry');
const toolName = /^[A-Za-z0-9_.-]{1,128}$/;
const promptName = /^[^\p{Cc}\p{Cs}]{1,128}$/u;
const nothing = z.object({});

/** Something that is offered until it is taken back. */
export interface Registration {
  /** Takes it back, which clients that may hear of it are told. Calls of it that run go on. Does nothing a second time. */
  remove(): void;
}

type List = 'tools' | 'resources' | 'prompts';

/** What a server offers. What is registered or taken back while it serves is announced to its clients. */
export class Registry {
  readonly [brand] = true;
  readonly info: Implementation;
  readonly instructions: string | undefined;
  readonly tools: ReadonlyMap<string, Tool> = new Map();
  readonly resources: ReadonlyMap<string, Resource> = new Map();
  readonly templates: ReadonlyMap<string, Template> = new Map();
  readonly prompts: ReadonlyMap<string, Prompt> = new Map();
  readonly #dependencies = new Set<string>();
  readonly #offered = new Set<List>();
  readonly #listeners = new Set<(change: Notification) => void>();

  constructor({ instructions, ...info }: Implementation & { readonly instructions?: string }) {
    for (const member of ['name', 'version'] as const) {
      if (typeof info[member] !== 'string' || info[member] === '') {
        throw new TypeError(`Registry: expected a ${member}`);
      }
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
   * error result. Throws `TypeError`, as all that registers does, if the name is taken or bad, or a schema cannot be shown.
   */
  tool<I extends z.ZodObject = typeof nothing, O extends z.ZodObject = never>(
    name: string,
    options: ToolOptions<I, O>,
    handler: ToolHandler<I, O>,
  ): Registration {
    const what = `tool "${name}"`;
    if (!toolName.test(name))
      throw new TypeError(`${what}: expected a name of 1 to 128 characters of A-Z a-z 0-9 _ . -`);
    const { input = nothing, output, annotations } = options;
    const shown = {
      name,
      ...namedBy(options),
      inputSchema: jsonSchemaOf(`${what}: its input`, input, 'input'),
      ...(output !== undefined && { outputSchema: jsonSchemaOf(`${what}: its output`, output, 'output') }),
      ...(annotations !== undefined && { annotations: { ...annotations } as Members }),
    };
    const registered = { shown, input, output, handler: checked(what, handler) as Tool['handler'] };
    return this.#add('tools', what, this.tools, name, registered);
  }

  /** Registers a resource. Its handler gets the URI and the exchange. */
  resource(uri: string, options: ResourceOptions, handler: Resource['handler']): Registration {
    const what = `resource "${uri}"`;
    if (!URL.canParse(uri)) throw new TypeError(`${what}: expected an absolute URI`);
    const shown = { uri, ...describedBy(uri, options), ...(options.size !== undefined && { size: options.size }) };
    const registered = { shown, mimeType: options.mimeType, handler: checked(what, handler) };
    return this.#add('resources', what, this.resources, uri, registered);
  }

  /**
   * Registers the resources of one shape, as {@link UriTemplate} understands it. The handler gets the variables of the URI,
   * the exchange, and the URI.
   */
  resourceTemplate<const T extends string>(
    uriTemplate: T,
    options: TemplateOptions<T>,
    handler: (
      variables: Readonly<Record<VariablesOf<T>, string>>,
      exchange: Exchange,
      uri: string,
    ) => Awaitable<ResourceResult>,
  ): Registration {
    const what = `resource template "${uriTemplate}"`;
    const template = new UriTemplate(uriTemplate);
    const complete = completersOf(what, options.complete, template.names);
    const shown = { uriTemplate, ...describedBy(uriTemplate, options) };
    const run = checked(what, handler) as Template['handler'];
    const registered = { shown, mimeType: options.mimeType, template, complete, handler: run };
    return this.#add('resources', what, this.templates, uriTemplate, registered);
  }

  /** Registers a prompt. Its handler gets the arguments, checked, and the exchange. Choices complete themselves. */
  prompt<I extends z.ZodObject = typeof nothing>(
    name: string,
    options: PromptOptions<I>,
    handler: (args: z.output<I>, exchange: Exchange) => Awaitable<PromptResult>,
  ): Registration {
    const what = `prompt "${name}"`;
    if (!promptName.test(name)) throw new TypeError(`${what}: expected a name of 1 to 128 characters`);
    const input = options.arguments ?? nothing;
    const { properties = {}, required = [] } = jsonSchemaOf(`${what}: its arguments`, input, 'input');
    const fields = properties as { readonly [name: string]: Members };
    const choices: Record<string, Completer> = {};
    const shownArguments = Object.entries(fields).map(([argument, property]) => {
      if (property.type !== 'string') throw new TypeError(`${what}: argument "${argument}": expected a field of text`);
      if (Array.isArray(property.enum)) choices[argument] = beginning(property.enum);
      return { name: argument, ...namedBy(property), required: (required as string[]).includes(argument) };
    });
    const complete = { ...choices, ...completersOf(what, options.complete, Object.keys(fields)) };
    const listed = shownArguments.length > 0 && { arguments: shownArguments };
    const shown = { name, ...namedBy(options), ...listed };
    const registered = { shown, input, complete, handler: checked(what, handler) as Prompt['handler'] };
    return this.#add('prompts', what, this.prompts, name, registered);
  }

  /**
   * Provides what handlers need beside their arguments, and clients never see: a transaction, a client of some service. A
   * handler gets it from `exchange.resolve`. The name is for messages.
   */
  provide<T>(name: string, options: DependencyOptions<T>): Dependency<T> {
    const what = `dependency "${name}"`;
    if (typeof name !== 'string' || name === '') throw new TypeError('provide: expected a name');
    const { open, close } = options;
    if (typeof open !== 'function') throw new TypeError(`${what}: expected a function that opens it`);
    if (close !== undefined && typeof close !== 'function')
      throw new TypeError(`${what}: expected a function that closes it`);
    if (this.#dependencies.has(name)) throw new TypeError(`${what}: there is one of that name already`);
    this.#dependencies.add(name);
    return new Dependency(name, options);
  }

  /** Tells whoever subscribed to it that a resource has changed. */
  announceUpdate(uri: string): void {
    this.#tell({ method: 'notifications/resources/updated', params: { uri } });
  }

  /** Whether there ever was one of a kind: who was told that there are tools may ask for the list when all are gone. */
  offers(list: List): boolean {
    return this.#offered.has(list);
  }

  /** Calls `listener` with every change of what is offered, until the returned function is called. */
  subscribe(listener: (change: Notification) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #add<T>(list: List, what: string, map: ReadonlyMap<string, T>, key: string, one: T): Registration {
    if (map.has(key)) throw new TypeError(`${what}: there is one of that name already`);
    (map as Map<string, T>).set(key, one);
    this.#offered.add(list);
    const changed = { method: `notifications/${list}/list_changed` };
    this.#tell(changed);
    const remove = () => {
      if (map.get(key) !== one) return;
      (map as Map<string, T>).delete(key);
      this.#tell(changed);
    };
    return { remove };
  }

  #tell(change: Notification): void {
    for (const listener of [...this.#listeners]) listener(change);
  }
}

function namedBy({ title, description }: { title?: unknown; description?: unknown }): Members {
  return {
    ...(typeof title === 'string' && { title }),
    ...(typeof description === 'string' && { description }),
  };
}

function describedBy(uri: string, options: Omit<ResourceOptions, 'size'>): Members {
  const { name = uri, mimeType, annotations } = options;
  return {
    name,
    ...namedBy(options),
    ...(mimeType !== undefined && { mimeType }),
    ...(annotations !== undefined && { annotations: { ...annotations } as Members }),
  };
}

function checked<T>(what: string, handler: T): T {
  if (typeof handler !== 'function') throw new TypeError(`${what}: expected a handler function`);
  return handler;
}

function completersOf(what: string, complete: Completers = {}, names: readonly string[]): Completers {
  for (const name of Object.keys(complete)) {
    if (!names.includes(name)) throw new TypeError(`${what}: it completes "${name}", which it does not have`);
  }
  return complete;
}

/** Completes to those of the values that begin with what was typed. */
function beginning(values: readonly Json[]): Completer {
  return (value) => values.filter((one) => typeof one === 'string').filter((one) => one.startsWith(value));
}
