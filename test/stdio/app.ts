import * as z from 'zod';
import { elicit, Registry } from '../../host/library.ts';

/** What the tests of stdio serve: an app that prints, and tools that show what a transport can get wrong. */
const registry = new Registry({ name: 'stdio-test', version: '1.0.0' });

console.log('printed while it is loaded');
process.stdout.write('written while it is loaded\n');

registry.tool('print', {}, () => {
  console.log('printed by a handler');
  console.info({ printed: 'by a handler' });
  process.stdout.write('written by a handler\n');
  return 'printed';
});

registry.tool('echo', { input: z.object({ text: z.string() }) }, ({ text }) => text);

registry.tool('big', { input: z.object({ size: z.int() }) }, ({ size }) => 'x'.repeat(size));

registry.tool('memory', {}, () => String(process.memoryUsage.rss()));

registry.tool('count', {}, async (_, exchange) => {
  await exchange.session?.update((values) => ({ ...values, n: Number(values.n ?? 0) + 1 }));
  return String(exchange.session?.get('n') ?? 0);
});

registry.tool('request', {}, (_, { request, revision, session }) => ({
  revision,
  hasSession: session !== null,
  method: request.method,
  url: request.url,
  header: request.headers.get('mcp-session-id'),
  aborted: request.signal.aborted,
}));

registry.tool('forever', {}, async (_, exchange) => {
  exchange.progress(1);
  await exchange.waitCancelled();
  console.error('forever was cancelled');
  return 'cancelled';
});

registry.tool('stubborn', {}, async (_, exchange) => {
  exchange.progress(1);
  const hold = setInterval(() => undefined, 1000);
  await new Promise(() => hold);
  return 'never';
});

registry.tool(
  'flood',
  { input: z.object({ messages: z.int(), size: z.int() }) },
  async ({ messages, size }, exchange) => {
    const text = 'x'.repeat(size);
    for (let done = 1; done <= messages; done++) {
      exchange.progress(done, messages, text);
      if (done % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return `${messages} sent`;
  },
);

registry.tool('say', { input: z.object({ level: z.enum(['debug', 'info', 'error']) }) }, ({ level }, exchange) => {
  exchange.log(level, 'said');
  return 'said';
});

registry.tool('confirm', {}, async (_, exchange) => {
  const { action } = await exchange.ask('sure', elicit('Sure?'));
  return action;
});

registry.tool('grow', { input: z.object({ name: z.string() }) }, ({ name }) => {
  registry.tool(name, {}, () => name);
  return name;
});

registry.tool('touch', { input: z.object({ uri: z.string() }) }, ({ uri }) => {
  registry.announceUpdate(uri);
  return uri;
});

registry.resource('test://one', { name: 'one' }, () => 'the first');
registry.prompt('greet', { arguments: z.object({ who: z.string() }) }, ({ who }) => `Greet ${who}.`);

export default registry;
