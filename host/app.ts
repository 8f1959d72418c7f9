import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Registry } from './registry.ts';

/** The registry that a module exports by default; the demo app's without a module. */
export async function loadApp(app: string | undefined): Promise<Registry> {
  if (app === undefined) return (await import('./demo.ts')).default;
  if (/\.wasm$/i.test(app)) {
    const why = 'this version serves TypeScript and JavaScript modules, not components';
    throw new Error(`cannot serve "${app}": ${why}`);
  }
  let loaded: object;
  try {
    loaded = await import(pathToFileURL(resolve(app)).href);
  } catch (error) {
    const why = error instanceof Error ? error.message.trim().split('\n')[0] : String(error);
    throw new Error(`cannot load "${app}": ${why}`, { cause: error });
  }
  if (!('default' in loaded)) throw new Error(`cannot serve "${app}": it has no default export, expected a Registry`);
  if (!Registry.is(loaded.default)) throw new Error(`cannot serve "${app}": its default export is no Registry`);
  return loaded.default;
}
