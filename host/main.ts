import { readFileSync } from 'node:fs';
import { readServe, readSessions, UsageError } from './flags.ts';
import type { Registry, Server, StdioServer } from './library.ts';
import type { Log } from './log.ts';
import { serveUsage, sessionsUsage, usage } from './usage.ts';
import { createLog } from './write-log.ts';

/**
 * A terminal tells every process in it of Ctrl-C, and npm tells its child again: what comes within this time after the
 * first signal, in milliseconds, is no second one.
 */
const sameSignal = 100;

const commands = 'serve, sessions, --version or --help';

async function main([command, ...rest]: readonly string[]): Promise<void> {
  if (command === '--version' || command === '--help') {
    if (rest.length > 0) throw new UsageError(`${command}: expected nothing after it, not "${rest[0]}"`);
    return say(command === '--help' ? usage : `${versionOf()}\n`);
  }
  if (command === 'serve') return serveCommand(rest);
  if (command === 'sessions') return sessionsCommand(rest);
  if (command === undefined) throw new UsageError(`no command: expected ${commands}`);
  throw new UsageError(`unknown ${command.startsWith('-') ? 'flag' : 'command'} "${command}": expected ${commands}`);
}

async function serveCommand(args: readonly string[]): Promise<void> {
  const asked = readServe(args);
  if (asked === undefined) return say(serveUsage);
  const { app, stdio, level, format, options } = asked;
  const colour = process.stderr.isTTY && !process.env['NO_COLOR'];
  const log = createLog({ level, format, colour, write: (line) => process.stderr.write(line) });
  // Otherwise Node writes its warnings itself, and not as log lines.
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) => log('warning', 'process warning', { name, message }));
  // Before the app is loaded: it may print.
  const output = stdio ? (await import('./stdio/stdout.ts')).claimStdout().output : undefined;
  const started = stopAtSignal(log);
  const registry = await load(app);
  const { serve, serveStdio } = await import('./library.ts');
  if (output !== undefined) {
    const server = await serveStdio(registry, { ...options, output, log });
    started(server);
    log('info', 'serving stdin and stdout');
    await server.closed;
    process.exit(0);
  }
  try {
    const server = await serve(registry, { ...options, log });
    started(server);
    await say(`listening on ${server.url}\n`);
  } catch (error) {
    throw listenError(error, options.host, options.port) ?? error;
  }
}

/** Ends the process in good order at a signal, and at once at a second one. Returns what is to be told of the server. */
function stopAtSignal(log: Log): (server: Server | StdioServer) => void {
  let server: Server | StdioServer | undefined;
  let stopped: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    if (stopped !== undefined) {
      if (performance.now() - stopped > sameSignal) process.exit(1);
      return;
    }
    stopped = performance.now();
    if (server === undefined) process.exit(0);
    server.close().then(() => process.exit(0), fail);
    log('info', 'stopping', { signal });
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  return (started) => {
    server = started;
  };
}

async function load(app: string | undefined): Promise<Registry> {
  const stuck = (): void => fail(new Error(`cannot load "${app}": it waits at its top level for what never comes`));
  process.on('beforeExit', stuck);
  const { loadApp } = await import('./app.ts');
  const registry = await loadApp(app);
  process.off('beforeExit', stuck);
  return registry;
}

async function sessionsCommand(args: readonly string[]): Promise<void> {
  const asked = readSessions(args);
  if (asked === undefined) return say(sessionsUsage);
  const { administer } = await import('./administer.ts');
  for await (const text of administer(asked)) await say(text);
}

/** The error of a port that cannot be had, in words; `undefined` for any other. */
function listenError(error: unknown, host: string, port: number): Error | undefined {
  if (!(error instanceof Error && 'syscall' in error && 'code' in error)) return undefined;
  if (error.syscall !== 'listen' && error.syscall !== 'getaddrinfo') return undefined;
  const reasons: Record<string, string> = {
    EADDRINUSE: 'the port is in use',
    EACCES: 'this user may not listen on that port',
    EADDRNOTAVAIL: 'this machine has no such address',
    ENOTFOUND: 'no such host',
  };
  const code = String(error.code);
  return new Error(`cannot listen on ${host} port ${port}: ${reasons[code] ?? error.message} (${code})`, {
    cause: error,
  });
}

function versionOf(): string {
  for (const up of ['../package.json', '../../package.json']) {
    try {
      return JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')).version;
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error;
    }
  }
  throw new Error('package.json is missing beside the program');
}

/** Resolves when the text is out, or when nobody reads any more. */
function say(text: string): Promise<void> {
  return new Promise((done) => {
    process.stdout.write(text, () => done());
  });
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  // The bucket's own word for a URL that is none.
  const isUrl = text.startsWith('bucket: ') && error instanceof Error && 'code' in error && error.code === 'invalid';
  const line = `mcp-session: ${isUrl ? '--' : ''}${text}`.replace(/\p{Cc}+\s*/gu, ' ');
  process.stderr.write(`${line}\n`);
  process.exit(isUrl || error instanceof UsageError ? 2 : 1);
}

// Whoever reads the output or the log may have gone: a server goes on, a listing is of no more use.
process.stderr.on('error', () => undefined);
process.stdout.on('error', () => {
  if (process.argv[2] === 'sessions') process.exit(0);
});
main(process.argv.slice(2)).catch(fail);
