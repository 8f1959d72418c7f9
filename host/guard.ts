import type { WebRequest } from './call.ts';
import { codes, Refusal } from './rpc.ts';

export interface GuardOptions {
  /** Origins whose pages may call, such as `https://app.example.org`; `*` for all. */
  readonly allowOrigins?: readonly string[];
  /** Values of `Host` to answer to, with a port or for any port. */
  readonly allowHosts?: readonly string[];
  /** Whether only this machine can connect: then `Host` must be a loopback name unless it is allowed. */
  readonly loopback?: boolean;
}

/** What a browser may read of an answer. */
const exposed = 'Mcp-Session-Id, WWW-Authenticate, Retry-After, Allow';
/** What a page may send, where its preflight does not say it. */
const sendable =
  'Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, MCP-Protocol-Version, Mcp-Session-Id';

const fieldNames = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\s*,\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*$/;
const loopbackHost = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/;

/** Decides whose pages may call, and by which names this server may be called. */
export class Guard {
  readonly #origins: ReadonlySet<string>;
  readonly #hosts: ReadonlySet<string>;
  readonly #loopback: boolean;

  constructor(options: GuardOptions) {
    this.#origins = new Set((options.allowOrigins ?? []).map((origin) => origin.toLowerCase().replace(/\/$/, '')));
    this.#hosts = new Set((options.allowHosts ?? []).map((host) => host.toLowerCase()));
    this.#loopback = options.loopback ?? false;
  }

  /** Throws {@link Refusal} for a request that came under a foreign name, or from a foreign page. */
  check(request: WebRequest, origin: string | null): void {
    const host = (request.headers.get('host') ?? hostOf(request.url)).toLowerCase();
    if (!this.#answersTo(host)) throw new Refusal(403, codes.request, 'Host is not allowed');
    if (origin !== null && !this.#trusts(origin.toLowerCase(), host)) {
      throw new Refusal(403, codes.request, 'Origin is not allowed');
    }
  }

  /** The headers that let a page of an allowed origin read the answer. */
  headers(origin: string): Record<string, string> {
    return {
      'Access-Control-Allow-Origin': origin,
      'Access-Control-Expose-Headers': exposed,
      Vary: 'Origin',
    };
  }

  /** The headers that answer the preflight of an allowed origin. */
  preflight(request: WebRequest, methods: string): Record<string, string> {
    const wanted = request.headers.get('access-control-request-headers');
    return {
      'Access-Control-Allow-Methods': methods,
      // The origin is allowed; which `Mcp-Param-…` headers it sends is the business of its tools.
      'Access-Control-Allow-Headers': wanted !== null && fieldNames.test(wanted) ? wanted : sendable,
      'Access-Control-Max-Age': '7200',
    };
  }

  #answersTo(host: string): boolean {
    if (!this.#loopback && this.#hosts.size === 0) return true;
    if (this.#loopback && loopbackHost.test(host)) return true;
    return this.#hosts.has('*') || this.#hosts.has(host) || this.#hosts.has(host.replace(/:\d+$/, ''));
  }

  #trusts(origin: string, host: string): boolean {
    if (this.#origins.has('*') || this.#origins.has(origin)) return true;
    const end = origin.indexOf('://');
    if (end === -1) return false;
    const from = origin.slice(end + 3);
    return from === host || (this.#loopback && loopbackHost.test(from));
  }
}

function hostOf(url: string): string {
  const start = url.indexOf('://') + 3;
  const end = url.indexOf('/', start);
  return url.slice(start, end === -1 ? url.length : end);
}
