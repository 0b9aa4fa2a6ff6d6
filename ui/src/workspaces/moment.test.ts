import { expect, it } from 'vitest';
import { fromLocal, toLocal } from './moment';

it('is the same moment there and back', () => {
  const moment = '2026-12-01T10:30:00.000Z';
  expect(toLocal(moment)).toMatch(/^2026-1[12]-\d\dT\d\d:\d\d$/);
  expect(fromLocal(toLocal(moment))).toBe(moment);
});

it('is none where there is none', () => {
  expect([toLocal(undefined), toLocal('soon')]).toEqual(['', '']);
  expect([fromLocal(''), fromLocal('2026-13-01T00:00')]).toEqual([null, null]);
});
