import type { TestContext } from 'node:test';
import type { AnyBucket } from '../../host/bucket/bucket.ts';
import { MemoryBucket } from '../../host/bucket/memory.ts';
import { type ServeOptions, serve } from '../../host/library.ts';
import type { Registry } from '../../host/registry.ts';
import { Audit } from './audit.ts';

/** A whole server, as the library makes it. */
export interface ServedRegistry {
  readonly url: string;
  readonly bucket: AnyBucket;
  readonly audit: Audit;
}

/** Serves a registry until the test ends. Its whole log is looked through then. */
export async function serveFor(
  test: TestContext,
  registry: Registry,
  options: Omit<ServeOptions, 'bucket'> & { readonly bucket?: AnyBucket } = {},
): Promise<ServedRegistry> {
  const { bucket = new MemoryBucket(), ...more } = options;
  const audit = new Audit();
  const server = await serve(registry, { port: 0, log: audit.log, ...more, bucket: audit.watching(bucket) });
  test.after(async () => {
    await server.close();
    audit.check();
  });
  return { url: server.url, bucket, audit };
}
