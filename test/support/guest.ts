import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { OutputStream } from '../../host/component.ts';

// The language's library lacks it, and that of browsers brings too much else.
declare const WebAssembly: { Module: new (bytes: Uint8Array) => object };

/** How the guest waits. */
export type Manner = 'ask-result' | 'block' | 'poll';

/** The tool that waits, of `test/guests`. */
export interface Asker {
  ask(bucket: string, id: string, client: OutputStream, manner: Manner): Promise<string>;
  count(bucket: string, id: string): Promise<string>;
}

const target = resolve('.cache/guests');
const modules = new Map<string, object>();

function coreModule(path: string): object {
  const module = modules.get(path) ?? new WebAssembly.Module(readFileSync(`${target}/${path}`));
  modules.set(path, module);
  return module;
}

/** Compiles the guest, once, and returns what makes instances of it over imports that are named without versions. */
export async function loadAsker(): Promise<(imports: Readonly<Record<string, object>>) => Asker> {
  await promisify(execFile)(process.execPath, ['test/guests/build.mjs', target]);
  const glue = await import(pathToFileURL(`${target}/asker.js`).href);
  // Whatever version a component asks for, it is the one interface that this host has.
  const named = (imports: Readonly<Record<string, object>>) =>
    new Proxy<Record<string, object>>({}, { get: (_, key) => imports[String(key).replace(/@.*/, '')] });
  return (imports) => glue.instantiate(coreModule, named(imports));
}

/** A client's end of the stream: the requests that were written to it. */
export class Asked {
  readonly requests: { readonly id: string; readonly method: string }[] = [];
  #heard = Promise.withResolvers<void>();

  /** What `outputStream` takes. */
  readonly write = (bytes: Uint8Array): void => {
    const event = /^data: (.*)\n\n$/.exec(Buffer.from(bytes).toString());
    assert.ok(event?.[1] !== undefined, 'one event in one write');
    this.requests.push(JSON.parse(event[1]));
    this.#heard.resolve();
  };

  /** The id of the first question, as soon as it was asked. */
  async question(): Promise<string> {
    await this.#heard.promise;
    return this.requests[0]?.id ?? '';
  }
}
