import { type LogFormat, logLevels } from './config.ts';
import type { Log, LogFields, LogLevel } from './log.ts';

export interface LogOptions {
  /** The least level that is written. */
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Whether `pretty` colours the level, for a terminal. */
  readonly colour?: boolean;
  /** Takes one line, its end included. */
  readonly write: (line: string) => void;
}

const colours: Readonly<Record<LogLevel, number>> = { debug: 2, info: 32, warning: 33, error: 31 };

/** Writes one line an event. Nothing in an event can begin another line, or pass for another member. */
export function createLog({ level, format, colour = false, write }: LogOptions): Log {
  const least = logLevels.indexOf(level);
  return (of, event, fields = {}) => {
    if (logLevels.indexOf(of) < least) return;
    const time = new Date().toISOString();
    write(format === 'json' ? jsonLine(time, of, event, fields) : prettyLine(time, of, event, fields, colour));
  };
}

function jsonLine(time: string, level: LogLevel, event: string, fields: LogFields): string {
  const own = { time, level, event };
  return `${harmless(JSON.stringify({ ...own, ...fields, ...own }))}\n`;
}

function prettyLine(time: string, level: LogLevel, event: string, fields: LogFields, colour: boolean): string {
  const said = Object.entries(fields).filter(([, value]) => value !== undefined);
  const shown = said.map(([name, value]) => ` ${bare(name)}=${typeof value === 'string' ? bare(value) : value}`);
  const padded = level.padEnd(7);
  const word = colour ? `\x1b[${colours[level]}m${padded}\x1b[0m` : padded;
  return `${time} ${word} ${/^[\w -]+$/.test(event) ? event : quote(event)}${shown.join('')}\n`;
}

function bare(text: string): string {
  return /^[\w.:/@+-]+$/.test(text) ? text : quote(text);
}

/** A JSON string on which no terminal and no reader of lines acts. */
export function quote(text: string): string {
  return harmless(JSON.stringify(text));
}

/** JSON text, with every character escaped that is invisible, turns the line around or ends it. */
export function harmless(json: string): string {
  return json.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (found) => {
    const unitsOf = found.split('');
    return unitsOf.map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');
  });
}
