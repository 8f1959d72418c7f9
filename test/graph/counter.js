// The tool of the graph. Plain JavaScript, compiled by componentize-js, that knows nothing but the WIT.
import { Session } from 'mcp:session/sessions@0.1.0';
import { open } from 'wasi:keyvalue/store@0.2.0-draft2';

export function bump(bucket, id) {
  let session;
  try {
    session = Session.open(open(bucket), id);
    for (;;) {
      const bytes = session.get('n');
      const text = bytes === undefined ? '0' : String.fromCharCode(...bytes);
      const next = Number(text) + 1;
      const value = Uint8Array.from(String(next), (digit) => digit.charCodeAt(0));
      if (session.swap('n', bytes, value)) return next;
    }
  } catch (error) {
    // What the WIT does not declare must not leave: it would end this instance.
    throw error.payload?.tag ?? String(error);
  } finally {
    session?.[Symbol.dispose]();
  }
}
