import * as z from 'zod';
import type { Exchange } from './exchange.ts';
import { elicit, NeedInput } from './questions.ts';
import { Registry } from './registry.ts';
import type { Json, Session } from './session.ts';

const registry = new Registry({ name: 'mcp-session-demo', version: '0.1.0' });

/** The session this call belongs to, on any revision: the protocol's own, the handle's, or a new one. */
async function reach(exchange: Exchange, handle?: string): Promise<Session> {
  if (exchange.session !== null) return exchange.session;
  const found = handle === undefined ? undefined : await exchange.sessions.use(handle);
  return found ?? (await exchange.sessions.open());
}

/** Appends to what the session has seen. By `update`: nothing is lost in parallel. */
async function see(session: Session, what: string): Promise<string[]> {
  await session.update((values) => ({ ...values, seen: [...listOf(values.seen), what] }));
  return listOf(session.get('seen'));
}

function listOf(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

registry.tool(
  'remember',
  { description: 'Adds to what this session has seen.', input: z.object({ what: z.string() }) },
  async ({ what }, exchange) => `${(await see(await reach(exchange), what)).length} so far`,
);

registry.tool(
  'visit',
  {
    description:
      'Records a visit. Returns a handle: send it with the next visit, or the visit begins a new list. Kept for an hour.',
    input: z.object({ what: z.string(), handle: z.string().optional() }),
    output: z.object({ handle: z.string(), seen: z.array(z.string()) }),
  },
  async ({ what, handle }, exchange) => {
    const session = await reach(exchange, handle);
    return { handle: session.id, seen: await see(session, what) };
  },
);

registry.tool('bump', { description: 'Adds one to the counter of this session.' }, async (_, exchange) => {
  const session = await reach(exchange);
  await session.update((values) => ({ ...values, n: Number(values.n ?? 0) + 1 }));
  return String(session.get('n'));
});

registry.tool(
  'purge',
  { description: 'Purges something, after the user confirmed it.', input: z.object({ name: z.string() }) },
  ({ name }, exchange) => {
    const answer = exchange.answer('confirm');
    if (answer === undefined) {
      throw new NeedInput({ confirm: elicit(`Purge ${name}?`) }, { state: { resolved: name.toUpperCase() } });
    }
    if (!answer.accepted)
      return answer.action === 'decline' ? 'declined: nothing was purged' : 'cancelled: nothing was purged';
    return `purged ${(exchange.state as { resolved: string }).resolved}`;
  },
);

registry.tool(
  'process',
  { description: 'Works in steps and tells after each.', input: z.object({ steps: z.int().min(1).max(100) }) },
  ({ steps }, exchange) => {
    for (let step = 1; step <= steps; step++) exchange.progress(step, steps);
    return `processed ${steps} steps`;
  },
);

registry.tool('whoami', { description: 'Says what the server knows of the client.' }, (_, exchange) => {
  const { clientInfo, revision, owner } = exchange;
  return {
    name: clientInfo?.name ?? null,
    version: clientInfo?.version ?? null,
    revision,
    ...(owner !== undefined && { owner }),
  };
});

export default registry;
