import { expect, it } from 'vitest';
import { sentence } from './client';
import { withOperation } from './live';
import type { Operation } from './types';

it.each([
  ['the id is taken', 'The id is taken.'],
  ['Access Denied', 'Access Denied.'],
  ['try again!', 'Try again!'],
  [' done. ', 'Done.'],
])('makes a sentence of "%s"', (text, expected) => {
  expect(sentence(text)).toBe(expected);
});

it('keeps operations newest first, each once', () => {
  const operation = (operationId: string, startedAt: string, message = '') =>
    ({ operationId, startedAt, message }) as Operation;
  let all = withOperation([operation('a', '2026-01-01')], operation('b', '2026-01-02'));
  all = withOperation(all, operation('a', '2026-01-01', 'further'));
  expect(all.map(({ operationId, message }) => [operationId, message])).toEqual([
    ['b', ''],
    ['a', 'further'],
  ]);
});
