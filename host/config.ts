import type { LogLevel } from './log.ts';
import type { Mode } from './revisions/all.ts';

/** What holds where nothing else is said. Times in milliseconds. */
export const defaults = {
  bucket: 'sqlite:./mcp-session.db',
  host: '127.0.0.1',
  port: 3000,
  path: '/mcp',
  mode: 'stateful-for-initialize',
  sessionTtl: 60 * 60 * 1000,
  stateTtl: 10 * 60 * 1000,
  namespace: '',
  keepAlive: 15_000,
  retry: 1000,
  logLevel: 'info',
  logFormat: 'pretty',
} as const;

export const modes = ['stateful', 'stateful-for-initialize', 'stateless'] as const satisfies readonly Mode[];

/** Least first. */
export const logLevels = ['debug', 'info', 'warning', 'error'] as const satisfies readonly LogLevel[];

export const logFormats = ['pretty', 'json'] as const;
export type LogFormat = (typeof logFormats)[number];
