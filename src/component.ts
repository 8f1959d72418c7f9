import { FutureElicitResult, Session } from './session.ts';

export const sessions = { FutureElicitResult, Session };
export * as transitions from './guarded-transitions.ts';
