// The chosen theme: kept in this browser, applied by theme.js before the first paint.

import { useState } from 'react';

export type Theme = 'system' | 'light' | 'dark';

function chosen(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(chosen);
  const choose = (next: Theme) => {
    if (next === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      if (next === 'system') localStorage.removeItem('theme');
      else localStorage.setItem('theme', next);
    } catch {
      // Without storage it lasts as long as the page.
    }
    setTheme(next);
  };
  return [theme, choose];
}
