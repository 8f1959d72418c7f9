export * as transitions from './guarded-transitions.ts';
