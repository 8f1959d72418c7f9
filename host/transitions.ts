import type * as wit from '#dist/types/host/interfaces/mcp-session-transitions.js';
import { compile, Instance } from './instance.ts';
import type { Log } from './log.ts';

export type {
  Beginning,
  Beside,
  Change,
  Created,
  KeyMeaning,
  Kind,
  Outcome,
  Question,
  RecordName,
  Removal,
  Response,
  Value,
  View,
} from '#dist/types/host/interfaces/mcp-session-transitions.js';

/** The `transitions` interface: what a stored session means and what every change does to it. Pure functions. */
export type Transitions = Readonly<typeof wit>;

/** Why a change was refused, by the name of its case. */
export type RefusalTag = wit.Refusal['tag'];

/** A refusal, as every function of {@link Transitions} throws it. Nothing is to be written then. */
export class Refusal extends Error {
  readonly tag: RefusalTag;
  /** The text of the case: the reason of a termination, what is wrong. `undefined` where the case has none. */
  readonly val: string | undefined;

  constructor(refusal: wit.Refusal) {
    const val = 'val' in refusal ? (refusal.val ?? undefined) : undefined;
    super(val === undefined ? refusal.tag : `${refusal.tag}: ${val}`);
    this.name = 'Refusal';
    this.tag = refusal.tag;
    this.val = val;
  }
}

export interface TransitionsOptions {
  /** Which build to run: `quickjs` is the small and quick one and the default, `starlingmonkey` is `session.wasm`. */
  readonly build?: 'quickjs' | 'starlingmonkey' | undefined;
  /** Hears `instance replaced` when a call made the component fail. That call throws, the next one works. */
  readonly log?: Log | undefined;
}

type Exports = { readonly transitions: Transitions };

/** Loads the component and answers with its `transitions`. Both builds give the same answers. */
export async function loadTransitions(options: TransitionsOptions = {}): Promise<Transitions> {
  const make = options.build === 'starlingmonkey' ? await sessionBuild() : await transitionsBuild();
  const instance = new Instance<Exports>({
    make,
    declared: (thrown) => refusalOf(thrown) !== undefined,
    log: options.log,
  });
  const call = <A extends unknown[], R>(choose: (transitions: Transitions) => (...args: A) => R) => {
    return (...args: A): R => {
      try {
        return choose(instance.exports.transitions)(...args);
      } catch (error) {
        const refusal = refusalOf(error);
        throw refusal === undefined ? error : new Refusal(refusal);
      }
    };
  };
  return {
    recordKey: call((t) => t.recordKey),
    create: call((t) => t.create),
    inspect: call((t) => t.inspect),
    examine: call((t) => t.examine),
    apply: call((t) => t.apply),
    delete: call((t) => t.delete),
    readKey: call((t) => t.readKey),
    sweep: call((t) => t.sweep),
    orphaned: call((t) => t.orphaned),
  };
}

async function transitionsBuild(): Promise<() => Exports> {
  const { instantiate } = await import('#dist/transitions/transitions.js');
  const { coreModule } = await compile('transitions');
  return () => instantiate(coreModule, {});
}

async function sessionBuild(): Promise<() => Exports> {
  const { instantiateSession } = await import('./component.ts');
  return instantiateSession({});
}

/** One build throws the variant itself, the other an error with the variant as its payload. */
function refusalOf(thrown: unknown): wit.Refusal | undefined {
  const payload = thrown instanceof Error ? (thrown as { payload?: unknown }).payload : thrown;
  const tagged = typeof payload === 'object' && payload !== null && 'tag' in payload;
  return tagged ? (payload as wit.Refusal) : undefined;
}
