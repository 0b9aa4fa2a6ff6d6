import { getRouteApi, Link } from '@tanstack/react-router';
import { useEffect } from 'react';
import { sentence } from '../api/client';
import { useLive } from '../api/live';
import { MOST_PAGES, useCapabilities, useOperation } from '../api/queries';
import type { Operation, OperationTarget } from '../api/types';
import { Badge } from '../components/Badge';
import { Button } from '../components/Button';
import { Card, Fact, Facts, Loading, Page, Trouble, When } from '../components/Page';
import { Steps } from '../workspaces/Progress';
import { Bar } from './Bar';
import { Commands } from './Commands';
import styles from './Operations.module.css';
import { counts, isBulk, listed, order, standing, states, summary, title } from './words';

const route = getRouteApi('/operations/$id');

/** One operation: how far it is, and what became of each workspace. */
export function OperationPage() {
  const { id } = route.useParams();
  const { state } = route.useSearch();
  const me = useCapabilities().data;
  const told = useLive().operations.find(({ operationId }) => operationId === id);
  const query = useOperation(id, told?.revision);
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = query;
  const pages = Math.ceil((query.data?.targets.length ?? 0) / 250);
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && pages < MOST_PAGES) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, fetchNextPage, pages]);
  // What the stream told is newer than what was asked for, but has not all the targets.
  const operation = query.data?.operation ?? told;
  const above = <Link to="/operations">Operations</Link>;
  if (!operation) {
    return (
      <Page title="Operation" above={above}>
        {query.isError ? <Trouble error={query.error} /> : <Loading what="the operation" rows={2} />}
      </Page>
    );
  }
  const targets = query.data?.targets ?? operation.targets;
  const many = isBulk(operation);
  return (
    <Page title={title(operation)} above={above}>
      <Card label="Progress">
        <div className={styles.stack} data-operation={id} data-state={operation.state}>
          {many ? <BulkProgress operation={operation} /> : <OneProgress operation={operation} />}
          {me && <Commands key={id} operation={operation} me={me} />}
          <Facts>
            {!many && operation.targets.map((target) => <Only key={target.id} target={target} />)}
            {many && <Terms operation={operation} />}
            <Fact name="Asked for by">{operation.actor}</Fact>
            <Fact name="Begun">
              <When at={operation.startedAt} />
            </Fact>
            {operation.finishedAt && (
              <Fact name="Ended">
                <When at={operation.finishedAt} />
              </Fact>
            )}
          </Facts>
        </div>
      </Card>
      {many && (
        <Card label="Workspaces">
          <Filters operation={operation} state={state} />
          <Targets targets={listed(targets, state)} />
          {hasNextPage && (
            <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
              Show more
            </Button>
          )}
        </Card>
      )}
    </Page>
  );
}

function State({ operation }: { operation: Operation }) {
  const { text, tone } = standing(operation);
  return <Badge tone={tone}>{text}</Badge>;
}

/** What was agreed on when an operation on many workspaces was asked for. */
function Terms({ operation: { canary, failureBudget, retryOf } }: { operation: Operation }) {
  return (
    <>
      {canary !== undefined && <Fact name="Tried first">{canary}</Fact>}
      {failureBudget !== undefined && <Fact name="May fail">{failureBudget}</Fact>}
      {retryOf && (
        <Fact name="Tries again">
          <Link to="/operations/$id" params={{ id: retryOf }}>
            the failed of another operation
          </Link>
        </Fact>
      )}
    </>
  );
}

function BulkProgress({ operation }: { operation: Operation }) {
  const found = counts(operation);
  const isHeld = !operation.done && (operation.paused || operation.waiting);
  return (
    <>
      <div className={styles.head}>
        <State operation={operation} />
        <p role="status">{sentence(summary(found))}</p>
      </div>
      <Bar counts={found} label={title(operation)} />
      {isHeld && <p className={styles.note}>{sentence(operation.message)}</p>}
      {operation.stopped && <p className={styles.note}>{sentence(operation.stopped)}</p>}
    </>
  );
}

function OneProgress({ operation }: { operation: Operation }) {
  const [target] = operation.targets;
  return (
    <>
      <div className={styles.head}>
        <State operation={operation} />
        <p role="status">{sentence(operation.message)}</p>
      </div>
      {target && !operation.done && <Steps phase={target.phase} mode={target.mode} isTaken={false} />}
    </>
  );
}

/** The workspace of an operation that has one. */
function Only({ target }: { target: OperationTarget }) {
  return (
    <>
      <Fact name="Workspace">
        <Link
          to="/workspaces/$id"
          params={{ id: target.id }}
          data-target={target.id}
          data-state={target.state}
        >
          {target.id}
        </Link>
      </Fact>
      <Fact name="Version">
        <Change target={target} />
      </Fact>
      {target.podName && (
        <Fact name="New pod">
          <code>{target.podName}</code>
        </Fact>
      )}
    </>
  );
}

function Change({ target: { fromVersion, toVersion, mode } }: { target: OperationTarget }) {
  if (!fromVersion || !toVersion) return null;
  return (
    <>
      <div className={styles.change}>
        <code>{fromVersion}</code> → <code>{toVersion}</code>
      </div>
      {mode && <div className={styles.soft}>{mode}</div>}
    </>
  );
}

function Filters({ operation, state }: { operation: Operation; state: string | undefined }) {
  const found = counts(operation);
  const choices = [
    { id: undefined, text: 'All', count: found.total },
    ...order.map((one) => ({ id: one, text: states[one].text, count: found[one] })),
  ];
  return (
    <nav className={styles.filters} aria-label="Show workspaces that are">
      {choices
        .filter(({ id, count }) => id === undefined || id === state || count > 0)
        .map(({ id, text, count }) => (
          <Link
            key={text}
            from="/operations/$id"
            search={{ state: id }}
            replace
            activeOptions={{ exact: true, includeSearch: true, explicitUndefined: true }}
          >
            {text} {count}
          </Link>
        ))}
    </nav>
  );
}

function Targets({ targets }: { targets: OperationTarget[] }) {
  if (targets.length === 0) return <p className={styles.soft}>None is in this state.</p>;
  return (
    <table className={styles.table}>
      <thead>
        <tr>
          <th scope="col">Workspace</th>
          <th scope="col">State</th>
          <th scope="col">Version</th>
          <th scope="col">What happened</th>
        </tr>
      </thead>
      <tbody>
        {targets.map((target) => (
          <tr key={target.id} data-target={target.id} data-state={target.state}>
            <td>
              <Link to="/workspaces/$id" params={{ id: target.id }}>
                {target.id}
              </Link>
              {target.owner && <div className={styles.soft}>{target.owner}</div>}
            </td>
            <td>
              <Badge tone={states[target.state].tone}>{states[target.state].text}</Badge>
            </td>
            <td>
              <Change target={target} />
            </td>
            <td className={target.state === 'failed' ? styles.error : undefined}>
              {sentence(target.message)}
              {target.underWay && (
                <div>
                  <Link to="/operations/$id" params={{ id: target.underWay }}>
                    Follow it there
                  </Link>
                </div>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
