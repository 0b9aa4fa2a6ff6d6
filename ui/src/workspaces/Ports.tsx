import type { Capabilities, Workspace } from '../api/types';
import styles from './WorkspaceCard.module.css';
import { ports } from './words';

/** What a workspace serves beside its own port, and where it is opened. */
export function Ports({ workspace, me }: { workspace: Workspace; me: Capabilities }) {
  return (
    <span className={styles.ports}>
      {ports(workspace, me).map(({ name, port, open }) => (
        <span key={name}>
          {open ? <a href={open}>{name}</a> : name} ({port})
        </span>
      ))}
    </span>
  );
}
