// A tool that waits in the middle of its call. Plain JavaScript, compiled by componentize-js, that knows nothing but the WIT.
import { Session } from 'mcp:session/sessions@0.1.0';
import { poll } from 'wasi:io/poll@0.2.12';
import { open } from 'wasi:keyvalue/store@0.2.0-draft2';

const people = { name: 'people', required: true, kind: { tag: 'integer', val: { minimum: 1n } } };
const question = { tag: 'form', val: { message: 'How many come?', fields: [people] } };
const bytesOf = (text) => Uint8Array.from(text, (character) => character.charCodeAt(0));

export function ask(bucket, id, client, manner) {
  return inSession(bucket, id, (session) => {
    session.set('stage', bytesOf('asked'));
    const future = session.elicit(client, question);
    const result = wait(future, manner);
    future[Symbol.dispose]();
    if (result.tag !== 'form') return `${result.tag} ${result.val.tag}`;
    if (result.val.action !== 'accept') return result.val.action;
    const [[, { val }]] = result.val.content;
    session.set('people', bytesOf(String(val)));
    return `${val} come`;
  });
}

function wait(future, manner) {
  if (manner !== 'ask-result') {
    const pollable = future.subscribe();
    if (manner === 'block') pollable.block();
    else poll([pollable]);
    pollable[Symbol.dispose]();
  }
  return future.elicitResult();
}

export function count(bucket, id) {
  return inSession(bucket, id, (session) => String.fromCharCode(...(session.get('people') ?? bytesOf('none'))));
}

function inSession(bucket, id, run) {
  let session;
  try {
    session = Session.open(open(bucket), id);
    return run(session);
  } catch (error) {
    // What the WIT does not declare must not leave: it would end this instance.
    throw error.payload?.val ?? error.payload?.tag ?? String(error);
  } finally {
    session?.[Symbol.dispose]();
  }
}
