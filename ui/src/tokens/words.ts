// What access tokens are called by, and may be wished for.

import type { Token, TokenScope } from '../api/types';

/** What a token may be used for, in steps that people think in. */
export type Reach = 'look' | 'work' | 'all';

const REACHES: Record<Reach, { text: string; scopes: TokenScope[] }> = {
  look: { text: 'Look and open', scopes: ['nogoo9:read'] },
  work: { text: 'Look, open and change', scopes: ['nogoo9:read', 'nogoo9:write'] },
  all: {
    text: 'Everything, upgrades of all included',
    scopes: ['nogoo9:read', 'nogoo9:write', 'nogoo9:admin'],
  },
};

/** The reaches that somebody may choose from. */
export const reaches = (isAdmin: boolean) =>
  (Object.entries(REACHES) as [Reach, { text: string }][])
    .filter(([reach]) => isAdmin || reach !== 'all')
    .map(([id, { text }]) => ({ id, text }));

export const scopesOf = (reach: Reach): TokenScope[] => REACHES[reach].scopes;

/** The reach of a token in words; scopes that make up none are named. */
export function reachOf({ scopes }: Pick<Token, 'scopes'>): string {
  const has = [...scopes].sort().join(' ');
  const known = Object.values(REACHES).find((reach) => [...reach.scopes].sort().join(' ') === has);
  return known?.text ?? scopes.join(', ');
}

/** Lives to choose from, in days. */
export const LIVES = [
  { id: '7', text: '7 days' },
  { id: '30', text: '30 days' },
  { id: '90', text: '90 days' },
  { id: '365', text: '1 year' },
];

const DAY_MS = 24 * 3600 * 1000;

/** How a token's end stands to `now`. */
export function ends({ expiresAt, expired }: Pick<Token, 'expiresAt' | 'expired'>, now: number): string {
  const days = Math.ceil((Date.parse(expiresAt) - now) / DAY_MS);
  if (expired || days <= 0) return 'Expired';
  return days === 1 ? 'Expires within a day' : `Expires in ${days} days`;
}
