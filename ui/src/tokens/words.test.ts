import { expect, it } from 'vitest';
import { ends, LIVES, reaches, reachOf, scopesOf } from './words';

it('offers the reach of admins to admins', () => {
  expect(reaches(true).map(({ id }) => id)).toEqual(['look', 'work', 'all']);
  expect(reaches(false).map(({ id }) => id)).toEqual(['look', 'work']);
});

it('calls scopes by the reach that they make up', () => {
  for (const { id, text } of reaches(true)) {
    expect(reachOf({ scopes: [...scopesOf(id)].reverse() })).toBe(text);
  }
  expect(reachOf({ scopes: ['nogoo9:write'] })).toBe('nogoo9:write');
  expect(reachOf({ scopes: ['nogoo9:read', 'nogoo9:new'] })).toBe('nogoo9:read, nogoo9:new');
});

it('says when a token ends', () => {
  const now = Date.parse('2026-12-01T12:00:00Z');
  const token = (expiresAt: string, expired = false) => ({ expiresAt, expired });
  expect(ends(token('2026-12-31T12:00:00Z'), now)).toBe('Expires in 30 days');
  expect(ends(token('2026-12-02T12:00:01Z'), now)).toBe('Expires in 2 days');
  expect(ends(token('2026-12-02T11:00:00Z'), now)).toBe('Expires within a day');
  expect(ends(token('2026-12-01T12:00:00Z'), now)).toBe('Expired');
  expect(ends(token('2026-12-31T12:00:00Z', true), now)).toBe('Expired');
});

it('offers lives within a year', () => {
  for (const { id } of LIVES) expect(Number(id)).toBeGreaterThan(0);
  expect(Math.max(...LIVES.map(({ id }) => Number(id)))).toBe(365);
});
