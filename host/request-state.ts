import { answerFault } from '../src/answer.ts';
import { limits } from '../src/limits.ts';
import { bindingOf } from './binding.ts';
import { type Call, RpcError } from './call.ts';
import { answersFromJson, answersToJson, type Known } from './known.ts';
import { Answer, type Question } from './questions.ts';
import { codes, isMembers } from './rpc.ts';
import { type Json, type Session, SessionError } from './session.ts';

type Members = { readonly [name: string]: Json };

/** The attributes in which a request state remembers what a handler knew. */
const notes = { state: 'state', answers: 'answers', questions: 'questions', rounds: 'rounds' } as const;

/** Leaves in the bucket what a handler knows and what it asked, and gives the result that asks (2026-07-28). */
export async function leave(call: Call, known: Known, asked: ReadonlyMap<string, Question>): Promise<Members> {
  const questions = Object.fromEntries(asked) as unknown as Members;
  const attributes = {
    ...(known.state !== undefined && { [notes.state]: JSON.stringify(known.state) }),
    [notes.answers]: JSON.stringify(answersToJson(known.answers)),
    [notes.questions]: JSON.stringify(questions),
    [notes.rounds]: String(known.rounds),
  };
  // What is left of the record's size is for what the core adds.
  if (Buffer.byteLength(JSON.stringify(attributes)) > limits.record - 4096) {
    throw new SessionError('limit', `state, questions and answers have at most ${limits.record} bytes together`);
  }
  const binding = bindingOf(call);
  const { id } = await call.sessions.create('request-state', call.scope, attributes, { binding });
  return { resultType: 'input_required', inputRequests: questions, requestState: id };
}

/**
 * What the round before left, with the answers to what it asked; `undefined` for a first call. The state is spent then: of
 * several calls that bring it one gets it. Anything wrong leaves it as it was.
 */
export async function take(call: Call): Promise<Known | undefined> {
  // Some clients write null for what they leave out.
  const { requestState, inputResponses } = call.params;
  const responses = inputResponses ?? {};
  if (!isMembers(responses)) throw malformed('expected an object');
  // Answers without a state are answers to nothing: nobody asked.
  if (requestState === undefined || requestState === null) return undefined;
  if (typeof requestState !== 'string') throw invalid();
  const record = await call.sessions.open('request-state', call.scope, requestState);
  if (record === undefined) throw invalid();
  const answers = answersFromJson(parsed(record, notes.answers));
  for (const [key, question] of Object.entries(parsed<Question>(record, notes.questions))) {
    const response = Object.hasOwn(responses, key) ? responses[key] : undefined;
    if (response === undefined) continue;
    if (!(await isShaped(question, response))) throw malformed('expected a result of the question under each key');
    // What does not fit the question is as good as no answer: the handler asks again.
    if (answerFault(question.method, question.params, response) !== undefined) continue;
    answers.set(key, Answer.of(question, response));
  }
  try {
    await record.redeem(bindingOf(call));
  } catch (error) {
    if (error instanceof SessionError) throw invalid();
    throw error;
  }
  const state = record.attribute(notes.state);
  const rounds = Number(record.attribute(notes.rounds));
  return { answers, state: state === undefined ? undefined : JSON.parse(state), rounds };
}

function parsed<T>(record: Session, name: string): Record<string, T> {
  return JSON.parse(record.attribute(name) ?? '{}');
}

/** Whether a response has the shape of a result of the question's method, whatever it says. */
async function isShaped({ method, params }: Question, response: Json): Promise<boolean> {
  // Loaded where it is needed: most processes never are asked to read an answer.
  const protocol = await import('@modelcontextprotocol/core');
  if (method === 'roots/list') return protocol.ListRootsResultSchema.safeParse(response).success;
  if (method === 'sampling/createMessage') {
    const { CreateMessageResultSchema, CreateMessageResultWithToolsSchema } = protocol;
    const schema = params.tools === undefined ? CreateMessageResultSchema : CreateMessageResultWithToolsSchema;
    return schema.safeParse(response).success;
  }
  const read = protocol.ElicitResultSchema.safeParse(response);
  // A field filled in with something odd is an odd answer, and no malformed one.
  return read.success || read.error.issues.every(({ path }) => path[0] === 'content' && path.length > 1);
}

function invalid(): RpcError {
  return new RpcError(codes.params, 'invalid requestState');
}

function malformed(why: string): RpcError {
  return new RpcError(codes.params, `params.inputResponses: ${why}`);
}
