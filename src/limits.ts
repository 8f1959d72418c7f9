/** Every limit of the stored form, once. Sizes are bytes of UTF-8, times milliseconds. */
export const limits = {
  /** The longest key of a value. */
  key: 1024,
  /** The largest value. */
  value: 8 * 1024 * 1024,
  /** A value above this is kept under a key of its own. */
  inline: 4096,
  /** The most values of one session. */
  values: 10_000,
  /** The largest record: everything of a session but the values kept apart. */
  record: 1024 * 1024,
  /** The most questions of one session, answered ones included. */
  questions: 64,
  /** The largest question or answer. */
  question: 64 * 1024,
  /** The longest name of a note of the host. */
  attributeName: 64,
  /** The longest reason of a termination, and the longest namespace and owner. */
  text: 1024,
  /** The least entropy of an id, in bytes: 128 bits. */
  entropy: 16,
  /** The silence after which a session expires, unless its maker says otherwise. */
  sessionTtl: 60 * 60 * 1000,
  /** How long a question stays open. */
  questionTtl: 10 * 60 * 1000,
  /** How long an answer, or a question that expired, is remembered. */
  answerKept: 10 * 60 * 1000,
  /** How old a value kept apart must be before a sweep may take it for an orphan. */
  orphanAge: 60 * 60 * 1000,
} as const;
