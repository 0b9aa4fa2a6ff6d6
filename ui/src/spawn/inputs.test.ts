import { expect, it } from 'vitest';
import { fields, inputs } from './inputs';

it('makes a field of each parameter', () => {
  const made = fields({
    required: ['size', 'greeting'],
    properties: {
      greeting: { type: 'string', title: 'Greeting', description: 'What it says.', default: 'Hi' },
      size: { type: 'integer', minimum: 1 },
      colour: { enum: ['red', 'blue'] },
      loud: { type: 'boolean' },
    },
  });
  expect(
    made.map(({ name, label, kind, isRequired, placeholder }) => [
      name,
      label,
      kind,
      isRequired,
      placeholder,
    ]),
  ).toEqual([
    // What has a default need not be filled in.
    ['greeting', 'Greeting', 'text', false, 'Hi'],
    ['size', 'size', 'number', true, undefined],
    ['colour', 'colour', 'choice', false, undefined],
    ['loud', 'loud', 'switch', false, undefined],
  ]);
  expect(made[2]?.choices.map(({ id }) => id)).toEqual(['red', 'blue']);
  expect(fields(undefined)).toEqual([]);
});

it('sends what was filled in, and nothing else', () => {
  expect(inputs({ a: '', b: undefined, c: Number.NaN, d: 'x', e: 0, f: false })).toEqual({
    d: 'x',
    e: 0,
    f: false,
  });
});
