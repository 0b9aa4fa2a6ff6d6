import { useLive } from '../api/live';
import { Card, Empty, Loading, Page } from '../components/Page';
import { OperationList } from './OperationList';

/** What was asked for lately, and what became of it. */
export function OperationsPage() {
  const { connection, operations } = useLive();
  return (
    <Page title="Operations">
      {connection === 'connecting' ? (
        <Loading what="operations" />
      ) : operations.length === 0 ? (
        <Empty title="Nothing was upgraded lately">
          <p>
            An upgrade is an operation: it goes on in the background, survives restarts, and leaves its result
            here. Edit a template, and the workspaces made from it can be upgraded.
          </p>
        </Empty>
      ) : (
        <Card label="Newest operations">
          <OperationList operations={operations} />
        </Card>
      )}
    </Page>
  );
}
