import type { TestContext } from 'node:test';

/** Timers that only a test lets run; those that were set before are forgotten. */
export function forgetTimers(timers: TestContext['mock']['timers']): void {
  timers.reset();
  timers.enable({ apis: ['setTimeout', 'setInterval'] });
}
