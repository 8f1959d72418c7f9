import type { Log, LogFields, LogLevel } from './log.ts';

const levels: readonly LogLevel[] = ['debug', 'info', 'warning', 'error'];

export interface LogOptions {
  /** The least level that is written. */
  readonly level: LogLevel;
  readonly format: 'pretty' | 'json';
  /** Takes one line, its end included. */
  readonly write: (line: string) => void;
}

/** Writes one line an event. Nothing in a field can begin another line. */
export function createLog({ level, format, write }: LogOptions): Log {
  const least = levels.indexOf(level);
  return (of, event, fields = {}) => {
    if (levels.indexOf(of) < least) return;
    const time = new Date().toISOString();
    write(
      format === 'json'
        ? `${JSON.stringify({ time, level: of, event, ...fields })}\n`
        : pretty(time, of, event, fields),
    );
  };
}

function pretty(time: string, level: LogLevel, event: string, fields: LogFields): string {
  const said = Object.entries(fields).filter(([, value]) => value !== undefined);
  const shown = said.map(([name, value]) => ` ${name}=${typeof value === 'string' ? quoted(value) : value}`);
  return `${time} ${level.padEnd(7)} ${event}${shown.join('')}\n`;
}

function quoted(text: string): string {
  return /^[\x21-\x7e]+$/.test(text) ? text : JSON.stringify(text);
}
