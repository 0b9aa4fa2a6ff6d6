import { Link } from '@tanstack/react-router';
import { sentence } from '../api/client';
import type { Operation } from '../api/types';
import { Badge } from '../components/Badge';
import { When } from '../components/Page';
import { Bar } from './Bar';
import styles from './Operations.module.css';
import { counts, standing, summary, title } from './words';

/** Operations, newest first, each in a few lines. */
export function OperationList({ operations }: { operations: readonly Operation[] }) {
  return (
    <ul className={styles.list}>
      {operations.map((operation) => {
        const { text, tone } = standing(operation);
        const found = counts(operation);
        return (
          <li key={operation.operationId} data-operation={operation.operationId} data-state={operation.state}>
            <div className={styles.head}>
              <Link to="/operations/$id" params={{ id: operation.operationId }}>
                {title(operation)}
              </Link>
              <Badge tone={tone}>{text}</Badge>
            </div>
            <p className={styles.soft}>
              {found.total > 1 ? sentence(summary(found)) : sentence(operation.message)}
            </p>
            {found.total > 1 && !operation.done && <Bar counts={found} label={title(operation)} />}
            <p className={styles.soft}>
              Asked for by {operation.actor}, <When at={operation.startedAt} />
            </p>
          </li>
        );
      })}
    </ul>
  );
}
