import { expect, it } from 'vitest';
import { steps } from './steps';

const now = (where: Parameters<typeof steps>[0]) => steps(where).find(({ state }) => state === 'now')?.text;

it.each([
  [{ phase: undefined, mode: undefined, isTaken: false }, 'New pod starts'],
  [{ phase: 'starting', mode: 'side-by-side', isTaken: false }, 'New pod starts'],
  [{ phase: 'starting', mode: 'side-by-side', isTaken: true }, 'Old pod drains'],
  [{ phase: 'draining', mode: 'side-by-side', isTaken: false }, 'Old pod drains'],
  [{ phase: 'aborting', mode: 'side-by-side', isTaken: false }, 'It is taken back'],
  [{ phase: 'done', mode: 'side-by-side', isTaken: false }, undefined],
  [{ phase: 'starting', mode: 'recreate', isTaken: false }, 'New pod is checked'],
  [{ phase: 'a phase of tomorrow', mode: 'recreate', isTaken: false }, 'New pod is checked'],
] as [Parameters<typeof steps>[0], string | undefined][])('of %o is %s', (where, text) => {
  expect(now(where)).toBe(text);
});

it('calls what is behind done and what is ahead later', () => {
  const states = steps({ phase: 'draining', mode: 'side-by-side', isTaken: true }).map(({ state }) => state);
  expect(states).toEqual(['done', 'done', 'now']);
});
