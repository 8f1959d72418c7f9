import type * as z from 'zod';
import type { Exchange } from './exchange.ts';
import type { Json } from './session.ts';
import type { UriTemplate, VariablesOf } from './uri-template.ts';

export type Awaitable<T> = T | Promise<T>;
type Members = { readonly [member: string]: Json };

/** A whole tool result: text, images, sound, links to resources. */
export interface ReadyResult {
  readonly content: readonly { readonly type: string; readonly [member: string]: unknown }[];
  readonly structuredContent?: object;
  readonly isError?: boolean;
  readonly _meta?: Members;
}

/** What a tool handler may return: text, a value for `structuredContent`, or a whole result with a `content` list. */
export type ToolResult = string | Json | object | ReadyResult;

/** What a tool says about itself (tools page, 2025-11-25, `ToolAnnotations`). */
export interface ToolAnnotations {
  readonly title?: string;
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
  readonly openWorldHint?: boolean;
}

/** What everything that is offered may say about itself. */
export interface Named {
  readonly title?: string;
  readonly description?: string;
}

export interface ToolOptions<I extends z.ZodObject, O extends z.ZodObject> extends Named {
  /** The arguments. No arguments if absent. */
  readonly input?: I;
  /** What `structuredContent` is checked against. A handler returns such a value then, or a whole result. */
  readonly output?: O;
  readonly annotations?: ToolAnnotations;
}

export type ToolHandler<I extends z.ZodObject, O extends z.ZodObject = never> = (
  args: z.output<I>,
  exchange: Exchange,
) => Awaitable<[O] extends [never] ? ToolResult : z.input<O> | ReadyResult>;

export interface ResourceOptions extends Named {
  /** A short name; the URI if absent. */
  readonly name?: string;
  readonly mimeType?: string;
  /** In bytes. */
  readonly size?: number;
  readonly annotations?: { readonly audience?: readonly ('user' | 'assistant')[]; readonly priority?: number };
}

/** What a resource handler may return: text, bytes, a value to show as JSON, whole `contents`; `undefined` if there is none. */
export type ResourceResult = string | Uint8Array | { readonly contents: readonly object[] } | object | undefined;

/** Suggests values for what was typed so far; `chosen` are the values of the other arguments. */
export type Completer = (
  value: string,
  chosen: Readonly<Record<string, string>>,
  exchange: Exchange,
) => Awaitable<readonly string[]>;

export interface TemplateOptions<T extends string> extends Omit<ResourceOptions, 'size'> {
  readonly complete?: { readonly [name in VariablesOf<T>]?: Completer };
}

export interface PromptOptions<I extends z.ZodObject> extends Named {
  /** The arguments: fields of text. No arguments if absent. */
  readonly arguments?: I;
  readonly complete?: { readonly [name in keyof z.input<I>]?: Completer };
}

/** What a prompt handler may return: the user's words, messages, or a whole result. */
export type PromptResult = string | readonly object[] | { readonly messages: readonly object[] };

export type Completers = { readonly [name: string]: Completer | undefined };

/** A tool as it is registered. `shown` is how a list shows it, here and below. */
export interface Tool {
  readonly shown: Members;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject | undefined;
  readonly handler: (args: never, exchange: Exchange) => Awaitable<ToolResult>;
}

export interface Resource {
  readonly shown: Members;
  readonly mimeType: string | undefined;
  readonly handler: (uri: string, exchange: Exchange) => Awaitable<ResourceResult>;
}

export interface Template {
  readonly shown: Members;
  readonly mimeType: string | undefined;
  readonly template: UriTemplate;
  readonly complete: Completers;
  readonly handler: (variables: never, exchange: Exchange, uri: string) => Awaitable<ResourceResult>;
}

export interface Prompt {
  readonly shown: Members;
  readonly input: z.ZodObject;
  readonly complete: Completers;
  readonly handler: (args: never, exchange: Exchange) => Awaitable<PromptResult>;
}
