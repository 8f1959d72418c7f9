import * as z from 'zod';
import registry from '../../host/demo.ts';

registry.tool(
  'count',
  { description: 'Adds one to the counter of a handle.', input: z.object({ handle: z.string().optional() }) },
  async ({ handle }, exchange) => {
    const found = handle === undefined ? undefined : await exchange.sessions.use(handle);
    const session = found ?? (await exchange.sessions.open());
    await session.update((values) => ({ ...values, n: Number(values.n ?? 0) + 1 }));
    return { handle: session.id, n: session.get('n') ?? null };
  },
);

/** The demo app and, for 2026-07-28, `count`: what `bump` does, by a handle. */
export default registry;
