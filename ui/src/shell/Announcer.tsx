import { useEffect, useRef, useState } from 'react';
import { useLive } from '../api/live';
import type { Status, Workspace } from '../api/types';
import { words } from '../workspaces/words';

/** Most changes that are said one by one. */
const MOST = 3;

/** Says, to those who listen, what becomes of the workspaces. */
export function Announcer() {
  const { workspaces, connection } = useLive();
  const before = useRef<Map<string, Status> | undefined>(undefined);
  const [text, setText] = useState('');
  useEffect(() => {
    if (connection !== 'live') return;
    const known = before.current;
    before.current = new Map([...workspaces.values()].map(({ id, status }) => [id, status]));
    if (!known) return;
    const changed = [...workspaces.values()].filter(({ id, status }) => known.get(id) !== status);
    if (changed.length > 0) setText(say(changed));
  }, [workspaces, connection]);
  return (
    <div role="status" className="visually-hidden">
      {text}
    </div>
  );
}

function say(changed: Workspace[]): string {
  if (changed.length > MOST) return `${changed.length} workspaces changed`;
  return changed.map(({ name, status }) => `${name}: ${words[status].text}`).join('. ');
}
