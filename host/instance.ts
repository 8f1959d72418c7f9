import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Log } from './log.ts';

/** What this file uses of it; the name is declared by browsers' typings alone. */
declare const WebAssembly: {
  readonly Module: new (bytes: Uint8Array) => object;
  compile(bytes: Uint8Array): Promise<object>;
};

/** What the build writes beside the glue of a component: where in it the core modules are. */
interface ModuleIndex {
  readonly modules: Readonly<Record<string, readonly [at: number, length: number]>>;
}

/** A built component whose modules are compiled. Instances share them: a further one costs a tenth of the first. */
export interface CompiledComponent {
  coreModule(path: string): object;
}

const compiled = new Map<string, Promise<CompiledComponent>>();

/** Compiles `dist/NAME.wasm`, once in this process. */
export function compile(name: 'session' | 'transitions'): Promise<CompiledComponent> {
  let component = compiled.get(name);
  if (component === undefined) {
    component = compileModules(name);
    compiled.set(name, component);
    // A failure is not kept: the build may be run meanwhile.
    component.catch(() => compiled.delete(name));
  }
  return component;
}

async function compileModules(name: string): Promise<CompiledComponent> {
  const at = (path: string) => new URL(import.meta.resolve(`#dist/${path}`));
  const { modules } = JSON.parse(readFileSync(at(`${name}/modules.json`), 'utf8')) as ModuleIndex;
  const component = await readFile(at(`${name}.wasm`));
  const ready = new Map<string, object>();
  for (const [path, [start, length]] of Object.entries(modules)) {
    ready.set(path, await WebAssembly.compile(component.subarray(start, start + length)));
  }
  return {
    coreModule(path) {
      let module = ready.get(path);
      if (module === undefined) {
        module = new WebAssembly.Module(readFileSync(at(`${name}/${path}`)));
        ready.set(path, module);
      }
      return module;
    },
  };
}

/** A call into a component that ended without a declared result: the component failed, or may not be entered now. */
export class InstanceError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'InstanceError';
  }
}

export interface InstanceOptions<E> {
  /** Makes an instance. */
  make(): E;
  /** Whether a thrown value is a result that the WIT declares. Every other one ends the instance. */
  declared(thrown: unknown): boolean;
  /** Hears `instance replaced`, once for each instance that failed. */
  readonly log?: Log | undefined;
}

type Callable = (this: unknown, ...args: unknown[]) => unknown;

/**
 * Keeps one synchronous instance of a component, and replaces it when it failed.
 *
 * A call that traps costs itself and what else lives inside that instance: resources of it answer with an
 * {@link InstanceError} from then on. What is stored is untouched, and `exports` is the next instance. A call that
 * arrives while another one is inside, from a bucket for instance, is refused: an instance is never re-entered.
 */
export class Instance<E extends object> {
  readonly #options: InstanceOptions<E>;
  #exports: E;
  #failed = false;

  constructor(options: InstanceOptions<E>) {
    this.#options = options;
    this.#exports = this.#make();
  }

  /** The exports of the instance that works now. Ask again for every use: a failed instance is replaced here. */
  get exports(): E {
    if (this.#failed) {
      this.#exports = this.#make();
      this.#failed = false;
    }
    return this.#exports;
  }

  #make(): E {
    const exports = this.#options.make();
    let inside = false;
    let dead = false;
    const guard = (run: Callable): Callable => {
      const options = this.#options;
      const fail = (error: unknown) => {
        dead = true;
        this.#failed = true;
        options.log?.('error', 'instance replaced', { reason: error instanceof Error ? error.name : typeof error });
        return new InstanceError('the component failed inside this call', { cause: error });
      };
      return function guarded(this: unknown, ...args) {
        if (dead) throw new InstanceError('this belongs to an instance of the component that failed: open it again');
        if (inside) throw new InstanceError('the component is in the middle of another call');
        inside = true;
        try {
          return guardDispose(run.apply(this, args), guard, () => dead);
        } catch (error) {
          throw options.declared(error) ? error : fail(error);
        } finally {
          inside = false;
        }
      };
    };
    return guardExports(exports, guard) as E;
  }
}

/** Every function of every exported interface goes through `guard`; resource classes keep their identity. */
function guardExports(exports: object, guard: (run: Callable) => Callable): object {
  const interfaces: [string, object][] = [];
  for (const [name, members] of Object.entries(exports)) {
    if (interfaces.some(([, known]) => known === members)) continue;
    interfaces.push([name, members]);
  }
  return Object.fromEntries(interfaces.map(([name, members]) => [name, guardInterface(members, guard)]));
}

function guardInterface(members: object, guard: (run: Callable) => Callable): object {
  const guarded: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(members)) {
    if (isResource(member)) {
      guardMethods(member, guard);
      guardMethods(member.prototype, guard);
      guarded[name] = member;
    } else {
      guarded[name] = guard(member as Callable);
    }
  }
  return guarded;
}

/** A resource that a call returned is dropped through the guard as well; of a failed instance it is gone already. */
function guardDispose(result: unknown, guard: (run: Callable) => Callable, dead: () => boolean): unknown {
  if (typeof result !== 'object' || result === null || !Object.hasOwn(result, Symbol.dispose)) return result;
  const dispose = guard((result as { [Symbol.dispose]: Callable })[Symbol.dispose]);
  Object.defineProperty(result, Symbol.dispose, {
    writable: true,
    value(this: unknown) {
      if (!dead()) dispose.call(this);
    },
  });
  return result;
}

function isResource(member: unknown): member is { prototype: object } {
  return typeof member === 'function' && /^class\b/.test(Function.prototype.toString.call(member));
}

function guardMethods(holder: object, guard: (run: Callable) => Callable): void {
  for (const name of Object.getOwnPropertyNames(holder)) {
    const descriptor = Object.getOwnPropertyDescriptor(holder, name);
    if (name === 'constructor' || typeof descriptor?.value !== 'function') continue;
    Object.defineProperty(holder, name, { ...descriptor, value: guard(descriptor.value as Callable) });
  }
}
