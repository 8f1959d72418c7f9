import type { Reply } from './answer.ts';
import type { WebRequest } from './call.ts';
import type { Transport } from './http.ts';
import { BodyError } from './rpc.ts';
import type { EventStream } from './sse.ts';

/** The largest body that is read, in bytes. */
export const bodyLimit = 4 * 1024 * 1024;

/** Serves the transport where requests and responses are those of the Web platform. */
export function createHandler(
  transport: Transport,
  limit: number = bodyLimit,
): (request: Request) => Promise<Response> {
  return async (request) => responseOf(await transport.handle(webRequestOf(request, limit)));
}

function webRequestOf(request: Request, limit: number): WebRequest {
  const { method, url, headers, signal } = request;
  return { method, url, headers, signal, text: () => textOf(request, limit) };
}

async function textOf(request: Request, limit: number): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  let text = '';
  let size = 0;
  try {
    for await (const chunk of request.body ?? []) {
      size += chunk.byteLength;
      if (size > limit) throw new BodyError('too-large', `The body is larger than ${limit} bytes`);
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof BodyError) throw error;
    if (error instanceof TypeError && !request.signal.aborted) {
      throw new BodyError('not-utf-8', 'The body is not UTF-8', { cause: error });
    }
    throw new BodyError('aborted', 'The body ended early', { cause: error });
  }
}

function responseOf({ status, headers, body }: Reply): Response {
  const content = typeof body === 'object' ? readableOf(body) : (body ?? null);
  return new Response(content, { status, headers });
}

function readableOf(stream: EventStream): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      stream.attach({
        write(text) {
          controller.enqueue(encoder.encode(text));
          return (controller.desiredSize ?? 0) > 0;
        },
        end(complete) {
          if (complete) controller.close();
          else controller.error(new Error('the reader of the stream is too slow'));
        },
      });
    },
    pull: () => stream.pull(),
    cancel: () => stream.cancel(),
  });
}
