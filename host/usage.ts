import { defaults, logFormats, logLevels, modes } from './config.ts';
import { formatDuration } from './duration.ts';

export const usage = `mcp-session: durable MCP sessions over Streamable HTTP and stdio

  mcp-session serve [APP] [FLAGS]
  mcp-session sessions list|show ID|terminate ID|delete ID [FLAGS]
  mcp-session --version | --help | COMMAND --help
`;

export const serveUsage = `mcp-session serve [APP] [FLAGS]

APP is a TypeScript or JavaScript module whose default export is a Registry. Without it the demo app is served.

  --stdio              serves one client over stdin and stdout instead of a port (off)
  --bucket URL         memory: or sqlite:PATH[?sync=full|normal][&busy=MILLISECONDS]
                       (${defaults.bucket})
  --host ADDRESS       the name or address to listen on (${defaults.host})
  --port N             the port; 0 takes a free one (${defaults.port})
  --path PATH          the endpoint (${defaults.path})
  --mode MODE          ${modes.join(', ')} (${defaults.mode})
  --session-ttl TIME   the silence after which a session expires (${formatDuration(defaults.sessionTtl)})
  --state-ttl TIME     how long request state waits for its answer (${formatDuration(defaults.stateTtl)})
  --allow-origin O     a web origin whose pages may call, or *; may be repeated (none)
  --allow-host H       a host name under which the server is reached, or *; may be repeated (none)
  --namespace NAME     separates the sessions of servers that share a bucket (none)
  --log-level LEVEL    ${logLevels.join(', ')} (${defaults.logLevel})
  --log-format FORMAT  ${logFormats.join(', ')} (${defaults.logFormat})
  --help               prints this

A TIME is a number and ms, s, m, h or d, from 1ms to 3650d: 500ms, 90s, 10m, 1h, 30d.
When it listens it prints "listening on URL"; everything else goes to stderr. With --stdio only the protocol is on
stdout, and the end of stdin ends it. SIGTERM and SIGINT let running calls finish and end with 0; a second one ends at
once.
`;

export const sessionsUsage = `mcp-session sessions list|show ID|terminate ID|delete ID [FLAGS]

Looks after the sessions of a bucket, also while a server runs on it.

  list          one line a session
  show ID       what is stored about one, and the keys and sizes of its values
  terminate ID  ends one; it can still be read by what holds it
  delete ID     removes one with all its values

  --bucket URL      sqlite:PATH (${defaults.bucket})
  --namespace NAME  the namespace of the sessions (none)
  --reason TEXT     for terminate: why (none)
  --values          for show: the values too (off)
  --json            JSON, one object a line (off)
  --help            prints this
`;
