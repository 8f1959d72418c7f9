import { parseArgs, type ParseArgsOptionsConfig } from 'node:util';
import { limits } from '../src/limits.ts';
import { isId } from '../src/namespace.ts';
import { defaults, logFormats, logLevels, modes } from './config.ts';
import { durationForms, formatDuration, parseDuration } from './duration.ts';

/** The user asked for something that there is not. The message names it, and what there is. */
export class UsageError extends Error {}

export const serveFlags = {
  stdio: { type: 'boolean', default: false },
  bucket: { type: 'string', default: defaults.bucket },
  host: { type: 'string', default: defaults.host },
  port: { type: 'string', default: String(defaults.port) },
  path: { type: 'string', default: defaults.path },
  mode: { type: 'string', default: defaults.mode },
  'session-ttl': { type: 'string', default: formatDuration(defaults.sessionTtl) },
  'state-ttl': { type: 'string', default: formatDuration(defaults.stateTtl) },
  'allow-origin': { type: 'string', multiple: true },
  'allow-host': { type: 'string', multiple: true },
  namespace: { type: 'string', default: defaults.namespace },
  'log-level': { type: 'string', default: defaults.logLevel },
  'log-format': { type: 'string', default: defaults.logFormat },
  help: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

export const sessionsFlags = {
  bucket: { type: 'string', default: defaults.bucket },
  namespace: { type: 'string', default: defaults.namespace },
  reason: { type: 'string' },
  values: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

/** The flags of `serve` that speak of a port. */
const portFlags: readonly string[] = ['host', 'port', 'path', 'allow-origin', 'allow-host'];

export const actions = ['list', 'show', 'terminate', 'delete'] as const;

/** What `serve` was asked for; `undefined` if for help. */
export function readServe(args: readonly string[]) {
  const { values, positionals, given } = parse('serve', args, serveFlags);
  if (values.help) return undefined;
  const misplaced = values.stdio && given.find((name) => portFlags.includes(name));
  if (misplaced) throw new UsageError(`--${misplaced}: expected no such flag beside --stdio, which opens no port`);
  const [app, ...more] = positionals;
  if (more.length > 0) throw new UsageError(`serve: expected one APP, not also "${more[0]}"`);
  if (app === '') throw new UsageError('serve: expected the path of APP, not ""');
  return {
    app,
    stdio: values.stdio,
    level: oneOf('log-level', values['log-level'], logLevels),
    format: oneOf('log-format', values['log-format'], logFormats),
    options: {
      bucket: values.bucket,
      host: matching('host', values.host, /^[\w.:%-]+$/, 'a name or address such as localhost, 127.0.0.1 or ::1'),
      port: portOf(values.port),
      path: pathOf(values.path),
      mode: oneOf('mode', values.mode, modes),
      sessionTtl: durationOf('session-ttl', values['session-ttl']),
      stateTtl: durationOf('state-ttl', values['state-ttl']),
      allowOrigins: (values['allow-origin'] ?? []).map(originOf),
      allowHosts: (values['allow-host'] ?? []).map(hostOf),
      namespace: textOf('namespace', values.namespace),
    },
  };
}

/** What `sessions` was asked for; `undefined` if for help. */
export function readSessions(args: readonly string[]) {
  const { values, positionals } = parse('sessions', args, sessionsFlags);
  if (values.help) return undefined;
  const [given, id, ...more] = positionals;
  const expected = 'expected list, show ID, terminate ID or delete ID';
  if (given === undefined) throw new UsageError(`sessions: no action: ${expected}`);
  const action = actions.find((one) => one === given);
  if (action === undefined) throw new UsageError(`sessions: unknown action "${given}": ${expected}`);
  const surplus = action === 'list' ? id : more[0];
  if (surplus !== undefined) {
    throw new UsageError(`sessions ${action}: expected ${action === 'list' ? 'nothing' : 'one ID'}, not "${surplus}"`);
  }
  if (action !== 'list' && id === undefined) throw new UsageError(`sessions ${action}: expected one ID`);
  if (values.reason !== undefined && action !== 'terminate') {
    throw new UsageError(`sessions ${action}: --reason goes with terminate`);
  }
  if (values.values && action !== 'show') throw new UsageError(`sessions ${action}: --values goes with show`);
  if (values.bucket.startsWith('memory:')) {
    throw new UsageError('--bucket "memory:": expected sqlite:PATH, for memory is not shared with a server');
  }
  const namespace = textOf('namespace', values.namespace);
  const reason = values.reason === undefined ? undefined : textOf('reason', values.reason);
  const { bucket, json } = values;
  return { action, id: id ?? '', bucket, namespace, reason, json, values: values.values };
}

function parse<T extends ParseArgsOptionsConfig>(command: string, args: readonly string[], options: T) {
  try {
    const config = {
      args: separate(args, options),
      options,
      allowPositionals: true,
      strict: true,
      tokens: true,
    } as const;
    const { values, positionals, tokens } = parseArgs(config);
    return { values, positionals, given: tokens.flatMap((token) => (token.kind === 'option' ? token.name : [])) };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const why = error.message.split(/\. |\.?\n/)[0] ?? '';
    const allowed = Object.keys(options).map((name) => `--${name}`);
    const said = `${command}: ${why.charAt(0).toLowerCase()}${why.slice(1)}`;
    throw new UsageError(`${said}: expected ${allowed.join(' ')}`, { cause: error });
  }
}

/** Tells values that begin with a dash from flags: negative numbers, so that they are refused as what they are, and ids. */
function separate(args: readonly string[], options: ParseArgsOptionsConfig): string[] {
  const before: string[] = [];
  const ids: string[] = [];
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  for (let i = 0; i < end; i++) {
    const arg = args[i] ?? '';
    const next = i + 1 < end ? args[i + 1] : undefined;
    const takesValue = arg.startsWith('--') && options[arg.slice(2)]?.type === 'string';
    if (takesValue && (next === undefined || /^--[a-z]/.test(next))) {
      throw new UsageError(`${arg}: expected a value after it`);
    }
    if (takesValue && next?.startsWith('-')) {
      before.push(`${arg}=${next}`);
      i++;
    } else if (arg.startsWith('-') && isId(arg)) ids.push(arg);
    else before.push(arg);
  }
  return [...before, '--', ...ids, ...args.slice(end + 1)];
}

function oneOf<T extends string>(flag: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw new UsageError(`--${flag} "${value}": expected ${allowed.join(', ')}`);
  return found;
}

function matching(flag: string, value: string, shape: RegExp, expected: string): string {
  if (shape.test(value)) return value;
  throw new UsageError(`--${flag} "${value}": expected ${expected}`);
}

function durationOf(flag: string, value: string): number {
  const milliseconds = parseDuration(value);
  if (milliseconds !== undefined) return milliseconds;
  throw new UsageError(`--${flag} "${value}": expected ${durationForms}`);
}

function portOf(value: string): number {
  if (/^\d{1,5}$/.test(value) && Number(value) <= 65_535) return Number(value);
  throw new UsageError(`--port "${value}": expected a number from 0 to 65535`);
}

function pathOf(value: string): string {
  if (value === '/health') throw new UsageError('--path "/health": expected another path, this one is taken');
  const isPlain = /^\/[\w.~\-/]*$/.test(value) && !/\/\/|\/\.{1,2}(\/|$)/.test(value);
  if (isPlain) return value;
  throw new UsageError(`--path "${value}": expected a path that begins with a slash, of A-Z a-z 0-9 _ . ~ - /`);
}

function originOf(value: string): string {
  return matching('allow-origin', value, /^(\*|[a-z][a-z\d+.-]*:\/\/[^\s/?#@,*]+\/?)$/i, 'SCHEME://HOST[:PORT] or *');
}

function hostOf(value: string): string {
  return matching('allow-host', value, /^(\*|(\[[\da-f:.]+\]|[\w.-]+)(:\d{1,5})?)$/i, 'HOST[:PORT] or *');
}

function textOf(flag: string, value: string): string {
  if (!value.isWellFormed() || Buffer.byteLength(value) > limits.text) {
    throw new UsageError(`--${flag}: expected at most ${limits.text} bytes of well-formed text`);
  }
  return value;
}
