import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs, type ParseArgsOptionsConfig } from 'node:util';
import { administer } from './administer.ts';
import { BucketError } from './bucket/bucket.ts';
import { parseDuration } from './duration.ts';
import { defaults, Registry, serve } from './library.ts';
import type { LogLevel } from './log.ts';
import { createLog } from './write-log.ts';

const usage = `mcp-session: durable MCP sessions over Streamable HTTP

  mcp-session serve [APP] [FLAGS]
  mcp-session sessions list|show ID|terminate ID|delete ID [FLAGS]
  mcp-session --version | --help | COMMAND --help
`;

const serveHelp = `mcp-session serve [APP] [FLAGS]

APP is a TypeScript or JavaScript module whose default export is a Registry. Without it the demo app is served.

  --bucket URL        memory: or sqlite:PATH[?sync=full|normal][&busy=MILLISECONDS]   (${defaults.bucket})
  --host ADDRESS      where to listen   (${defaults.host})
  --port N            0 takes a free port   (${defaults.port})
  --path PATH         the endpoint   (${defaults.path})
  --mode MODE         stateful, stateful-for-initialize or stateless   (${defaults.mode})
  --session-ttl TIME  the silence after which a session expires: 500ms, 90s, 10m, 1h, 30d   (1h)
  --state-ttl TIME    how long request state lives   (10m)
  --allow-origin O    a web origin that may call; may be repeated
  --allow-host H      a host name under which the server is reached; may be repeated
  --namespace NAME    separates the sessions of servers that share a bucket
  --log-level LEVEL   debug, info, warning or error   (info)
  --log-format FORMAT pretty or json   (pretty)
`;

const sessionsHelp = `mcp-session sessions list|show ID|terminate ID|delete ID [FLAGS]

  --bucket URL      the bucket   (${defaults.bucket})
  --namespace NAME  the namespace of the sessions   (none)
  --reason TEXT     why, for terminate
  --json            JSON in place of text
`;

/** The user asked for something that there is not. */
class UsageError extends Error {}

const serveFlags = {
  bucket: { type: 'string', default: defaults.bucket },
  host: { type: 'string', default: defaults.host },
  port: { type: 'string', default: String(defaults.port) },
  path: { type: 'string', default: defaults.path },
  mode: { type: 'string', default: defaults.mode },
  'session-ttl': { type: 'string', default: '1h' },
  'state-ttl': { type: 'string', default: '10m' },
  'allow-origin': { type: 'string', multiple: true, default: [] as string[] },
  'allow-host': { type: 'string', multiple: true, default: [] as string[] },
  namespace: { type: 'string', default: '' },
  'log-level': { type: 'string', default: 'info' },
  'log-format': { type: 'string', default: 'pretty' },
  help: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

const sessionsFlags = {
  bucket: { type: 'string', default: defaults.bucket },
  namespace: { type: 'string', default: '' },
  reason: { type: 'string' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean' },
} as const satisfies ParseArgsOptionsConfig;

async function main([command, ...rest]: readonly string[]): Promise<void> {
  if (command === '--version') return say(`${versionOf()}\n`);
  if (command === '--help') return say(usage);
  if (command === 'serve') return serveCommand(rest);
  if (command === 'sessions') return sessionsCommand(rest);
  const given = command === undefined ? 'no command' : `unknown command "${command}"`;
  throw new UsageError(`${given}: expected serve, sessions, --version or --help`);
}

async function serveCommand(args: string[]): Promise<void> {
  const { values, positionals } = parse(args, serveFlags);
  if (values.help) return say(serveHelp);
  const [app, ...more] = positionals;
  if (more.length > 0) throw new UsageError(`serve: expected one APP, not also "${more[0]}"`);
  const level = oneOf('log-level', values['log-level'], ['debug', 'info', 'warning', 'error']) as LogLevel;
  const format = oneOf('log-format', values['log-format'], ['pretty', 'json']);
  const options = {
    bucket: values.bucket,
    host: values.host,
    port: portOf(values.port),
    path: pathOf(values.path),
    mode: oneOf('mode', values.mode, ['stateful', 'stateful-for-initialize', 'stateless']),
    sessionTtl: durationOf('session-ttl', values['session-ttl']),
    stateTtl: durationOf('state-ttl', values['state-ttl']),
    allowOrigins: values['allow-origin'],
    allowHosts: values['allow-host'],
    namespace: values.namespace,
    log: createLog({ level, format, write: (line) => process.stderr.write(line) }),
  };
  // Whoever read the log may have gone; that is no reason to stop serving.
  process.stderr.on('error', () => undefined);
  const server = await serve(await load(app), options);
  await say(`listening on ${server.url}\n`);
  let isStopping = false;
  const stop = () => {
    if (isStopping) process.exit(1);
    isStopping = true;
    server.close().then(
      () => process.exit(0),
      (error: unknown) => fail(error),
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
}

async function sessionsCommand(args: string[]): Promise<void> {
  const { values, positionals } = parse(args, sessionsFlags);
  if (values.help) return say(sessionsHelp);
  const [action, id, ...more] = positionals;
  const isList = action === 'list';
  if (!isList && action !== 'show' && action !== 'terminate' && action !== 'delete') {
    const given = action === undefined ? 'no action' : `unknown action "${action}"`;
    throw new UsageError(`sessions: ${given}: expected list, show ID, terminate ID or delete ID`);
  }
  if (isList ? id !== undefined : id === undefined || more.length > 0) {
    throw new UsageError(`sessions ${action}: expected ${isList ? 'nothing after it' : 'one ID'}`);
  }
  if (values.reason !== undefined && action !== 'terminate')
    throw new UsageError('--reason goes with sessions terminate');
  await say(await administer({ ...values, action, id: id ?? '' }));
}

function parse<T extends ParseArgsOptionsConfig>(args: string[], options: T) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    const why = error instanceof Error ? (error.message.split(/\.\s|\n/)[0] ?? '') : '';
    const allowed = Object.keys(options).map((name) => `--${name}`);
    throw new UsageError(`${why}: expected ${allowed.join(' ')}`, { cause: error });
  }
}

function oneOf<T extends string>(flag: string, value: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === value);
  if (found === undefined) throw new UsageError(`--${flag} "${value}": expected ${allowed.join(', ')}`);
  return found;
}

function durationOf(flag: string, value: string): number {
  const milliseconds = parseDuration(value);
  if (milliseconds !== undefined) return milliseconds;
  throw new UsageError(`--${flag} "${value}": expected a time of 1ms to 3650d, such as 500ms, 90s, 10m, 1h or 30d`);
}

function portOf(value: string): number {
  if (/^\d{1,5}$/.test(value) && Number(value) <= 65_535) return Number(value);
  throw new UsageError(`--port "${value}": expected a number from 0 to 65535`);
}

function pathOf(value: string): string {
  if (/^\/[\w.~\-/]*$/.test(value)) return value;
  throw new UsageError(`--path "${value}": expected a path that begins with a slash`);
}

async function load(app: string | undefined): Promise<Registry> {
  if (app === undefined) return (await import('./demo.ts')).default;
  if (app.endsWith('.wasm'))
    throw new Error(`cannot serve "${app}": this version serves TypeScript and JavaScript modules`);
  let loaded: { default?: unknown };
  try {
    loaded = await import(pathToFileURL(resolve(app)).href);
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n')[0] : String(error);
    throw new Error(`cannot load "${app}": ${why}`, { cause: error });
  }
  if (!Registry.is(loaded.default)) throw new Error(`cannot serve "${app}": its default export is no Registry`);
  return loaded.default;
}

function versionOf(): string {
  for (const up of ['../package.json', '../../package.json']) {
    try {
      return JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')).version;
    } catch (error) {
      if (!(error instanceof Error) || !('code' in error) || error.code !== 'ENOENT') throw error;
    }
  }
  throw new Error('package.json is missing beside the program');
}

function say(text: string): Promise<void> {
  return new Promise((done, failed) => {
    process.stdout.write(text, (error) => (error ? failed(error) : done()));
  });
}

function fail(error: unknown): void {
  const isUsage = error instanceof UsageError || (error instanceof BucketError && error.code === 'invalid');
  process.stderr.write(`mcp-session: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(isUsage ? 2 : 1);
}

main(process.argv.slice(2)).catch(fail);
