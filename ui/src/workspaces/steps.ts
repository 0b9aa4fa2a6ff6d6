// The steps of an upgrade, as people see them.

import type { Mode } from '../api/types';

export interface Step {
  text: string;
  state: 'done' | 'now' | 'later';
}

interface Where {
  /** Of the operation; undefined while it is not known. */
  phase: string | undefined;
  mode: Mode | undefined;
  /** Whether the new pod serves already. */
  isTaken: boolean;
}

const SIDE_BY_SIDE = ['New pod starts', 'Requests move over', 'Old pod drains'];
const RECREATE = ['New pod is checked', 'Old pod ends', 'New pod starts'];
const TAKEN_BACK = ['New pod failed', 'It is taken back'];

/** Which steps there are, and which of them is under way. */
export function steps({ phase, mode, isTaken }: Where): Step[] {
  const { texts, at } = place({ phase, mode, isTaken });
  return texts.map((text, index) => ({
    text,
    state: index < at ? 'done' : index === at ? 'now' : 'later',
  }));
}

function place({ phase, mode, isTaken }: Where): { texts: string[]; at: number } {
  if (phase === 'aborting' || phase === 'restoring') return { texts: TAKEN_BACK, at: 1 };
  if (mode === 'recreate') {
    const at = { quiescing: 1, replacing: 1, released: 2, draining: 2, done: 3 }[phase ?? ''] ?? 0;
    return { texts: RECREATE, at };
  }
  if (phase === 'done') return { texts: SIDE_BY_SIDE, at: 3 };
  return { texts: SIDE_BY_SIDE, at: phase === 'draining' || isTaken ? 2 : 0 };
}
