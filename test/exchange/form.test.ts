import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as z from 'zod';
import type { Revision } from '../../host/call.ts';
import { questionFault } from '../../src/answer.ts';
import {
  canAnswer,
  elicit,
  elicitUrl,
  listRoots,
  NeedInput,
  phrased,
  type Question,
  sample,
} from '../../host/questions.ts';

const titled = z.union([z.literal('g').meta({ title: 'Ground' }), z.literal('1').meta({ title: 'First' })]);

/** A kind of field, and how it is said on 2025-11-25 and 2026-07-28, and on 2025-06-18 (`null`: left out). */
const fields: [string, z.ZodType, object, (object | null)?][] = [
  ['text', z.string().min(2).max(3), { type: 'string', minLength: 2, maxLength: 3 }],
  ['words', z.string().meta({ title: 'T', description: 'D' }), { type: 'string', title: 'T', description: 'D' }],
  ['shared', z.string().meta({ id: 'form-test-shared', title: 'T' }), { type: 'string', title: 'T' }],
  ['trimmed', z.string().trim(), { type: 'string' }],
  ['email', z.email(), { type: 'string', format: 'email' }],
  ['uri', z.url(), { type: 'string', format: 'uri' }],
  ['date', z.iso.date(), { type: 'string', format: 'date' }],
  ['moment', z.iso.datetime(), { type: 'string', format: 'date-time' }],
  ['preset', z.string().default('x'), { type: 'string', default: 'x' }, { type: 'string' }],
  ['number', z.number().min(1).max(2.5), { type: 'number', minimum: 1, maximum: 2.5 }],
  ['score', z.number().default(95.5), { type: 'number', default: 95.5 }, { type: 'number' }],
  ['whole', z.int(), { type: 'integer' }],
  ['positive', z.int().positive().lt(10), { type: 'integer', minimum: 1, maximum: 9 }],
  ['sure', z.boolean().default(true), { type: 'boolean', default: true }],
  ['only', z.literal('x'), { type: 'string', enum: ['x'] }],
  [
    'one',
    z.enum(['a', 'b']).default('a'),
    { type: 'string', enum: ['a', 'b'], default: 'a' },
    { type: 'string', enum: ['a', 'b'] },
  ],
  ['legacy', z.enum(['a']).meta({ enumNames: ['A'] }), { type: 'string', enum: ['a'], enumNames: ['A'] }],
  [
    'titled',
    titled,
    {
      type: 'string',
      oneOf: [
        { const: 'g', title: 'Ground' },
        { const: '1', title: 'First' },
      ],
    },
    { type: 'string', enum: ['g', '1'], enumNames: ['Ground', 'First'] },
  ],
  [
    'several',
    z
      .array(z.enum(['a', 'b']))
      .min(1)
      .max(2)
      .optional(),
    { type: 'array', items: { type: 'string', enum: ['a', 'b'] }, minItems: 1, maxItems: 2 },
    null,
  ],
  [
    'titledSeveral',
    z.array(titled).optional(),
    {
      type: 'array',
      items: {
        anyOf: [
          { const: 'g', title: 'Ground' },
          { const: '1', title: 'First' },
        ],
      },
    },
    null,
  ],
];

type Shown = { mode?: string; requestedSchema: { properties: Record<string, object>; required?: string[] } };

/** The params of a question in the words of a revision. */
function said(question: Question, revision: Revision): Shown {
  const { params } = phrased(question, revision) ?? {};
  assert.ok(params, `${revision} has words for it`);
  assert.equal(questionFault(question.method, params), undefined);
  return params as unknown as Shown;
}

describe('a form', () => {
  for (const [name, field, newer, older = newer] of fields) {
    test(`asks for ${name} in the words of each revision`, () => {
      const question = elicit('?', z.object({ [name]: field }));
      for (const revision of ['2025-11-25', '2026-07-28'] as const) {
        const { mode, requestedSchema } = said(question, revision);
        assert.equal(mode, 'form');
        assert.deepEqual(requestedSchema.properties, { [name]: newer });
      }
      const { mode, requestedSchema } = said(question, '2025-06-18');
      assert.equal(mode, undefined);
      assert.deepEqual(requestedSchema.properties, older === null ? {} : { [name]: older });
      assert.equal(phrased(question, '2025-03-26'), undefined);
    });
  }

  test('says which fields are required, and cannot do without one that a revision has no words for', () => {
    const question = elicit('?', z.object({ a: z.string(), b: z.string().optional() }));
    assert.deepEqual(said(question, '2025-06-18').requestedSchema.required, ['a']);
    const several = elicit('?', z.object({ a: z.array(z.enum(['x'])) }));
    assert.equal(phrased(several, '2025-06-18'), undefined);
    assert.ok(phrased(several, '2025-11-25'));
  });

  test('that cannot be asked is refused when it is made', () => {
    const bad: [z.ZodType, RegExp][] = [
      [z.object({ b: z.string() }), /field "a": a form asks for/],
      [z.array(z.string()), /a form asks for/],
      [z.string().nullable(), /a form asks for/],
      [z.any(), /a form asks for/],
      [z.literal(1), /cannot say "const"/],
      [z.union([z.string(), z.number()]), /a form asks for/],
      [z.string().regex(/x/), /cannot say "pattern"/],
      [z.uuid(), /cannot say "format"/],
      [z.number().multipleOf(2), /cannot say "multipleOf"/],
      [z.number().positive(), /cannot say "exclusiveMinimum"/],
      [z.date(), /cannot be said in JSON Schema/],
      [z.record(z.string(), z.string()), /a form asks for/],
    ];
    for (const [field, message] of bad) {
      assert.throws(() => elicit('?', z.object({ a: field })), { name: 'TypeError', message });
    }
    assert.throws(() => elicit('?', z.string() as never), /expected an object of Zod 4/);
    assert.throws(() => elicit(''), /expected a message/);
  });
});

describe('a question', () => {
  test('that makes no sense is refused when it is made', () => {
    for (const url of ['', 'x', 'javascript:alert(1)', 'file:///etc']) assert.throws(() => elicitUrl('?', url), /http/);
    const message = { role: 'user', content: { type: 'text', text: '?' } } as const;
    assert.throws(() => sample({ messages: [], maxTokens: 1 }), /messages/);
    assert.throws(() => sample({ messages: [message], maxTokens: 0 }), /maxTokens/);
    assert.throws(() => new NeedInput({}), /at least one question/);
    assert.throws(() => new NeedInput({ a: listRoots() }, { state: 1n as never }), TypeError);
  });

  test('is for clients that declared what it needs', () => {
    const form = elicit('?');
    const page = elicitUrl('?', 'https://example.org/');
    const message = { role: 'user', content: { type: 'text', text: '?' } } as const;
    const model = sample({ messages: [message], maxTokens: 1 });
    const tools = sample({ messages: [message], maxTokens: 1, tools: [] });
    const all = { form, page, model, tools, roots: listRoots() };
    const able = (capabilities: object) =>
      Object.entries(all)
        .filter(([, question]) => canAnswer(capabilities as never, question))
        .map(([name]) => name);
    assert.deepEqual(able({}), []);
    assert.deepEqual(able({ elicitation: {} }), ['form']);
    assert.deepEqual(able({ elicitation: { form: {} } }), ['form']);
    assert.deepEqual(able({ elicitation: { url: {} } }), ['page']);
    assert.deepEqual(able({ elicitation: { form: {}, url: {} } }), ['form', 'page']);
    assert.deepEqual(able({ sampling: {} }), ['model']);
    assert.deepEqual(able({ sampling: { tools: {} } }), ['model', 'tools']);
    assert.deepEqual(able({ roots: {} }), ['roots']);
    for (const odd of [true, null, [], 'x', 1]) {
      assert.deepEqual(able({ elicitation: odd, sampling: odd, roots: odd }), []);
    }
    assert.equal(phrased(page, '2025-06-18'), undefined);
  });
});
