import type * as Transitions from 'mcp:session/transitions@0.1.0';
import { isRefusal, refuse } from './record.ts';
import * as transitions from './transitions.ts';

/** Runs a function; a bug in it becomes a refusal, since any other thrown value would end the instance for good. */
function guarded<A extends unknown[], R>(run: (...args: A) => R): (...args: A) => R {
  return (...args) => {
    try {
      return run(...args);
    } catch (error) {
      if (isRefusal(error)) throw error;
      return refuse({ tag: 'invalid', val: `a fault in the component: ${error}` });
    }
  };
}

export const recordKey = guarded(transitions.recordKey);
export const create = guarded(transitions.create);
export const inspect = guarded(transitions.inspect);
export const examine = guarded(transitions.examine);
export const apply = guarded(transitions.apply);
export const sweep = guarded(transitions.sweep);
export const { readKey, orphaned } = transitions;
const remove = guarded(transitions.delete);
export { remove as delete };

({ recordKey, create, inspect, examine, apply, sweep, readKey, orphaned, delete: remove }) satisfies typeof Transitions;
