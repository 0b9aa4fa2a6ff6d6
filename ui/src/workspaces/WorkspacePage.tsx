import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { sentence } from '../api/client';
import { useLive } from '../api/live';
import { useCapabilities } from '../api/queries';
import type { LastUpgrade as Upgrade } from '../api/types';
import { Badge } from '../components/Badge';
import { Card, Empty, Fact, Facts, Loading, Page, When } from '../components/Page';
import { OperationList } from '../operations/OperationList';
import { states } from '../operations/words';
import { Actions } from './Actions';
import { NotBefore } from './NotBefore';
import { Ports } from './Ports';
import { Progress } from './Progress';
import { Version } from './Version';
import styles from './WorkspaceCard.module.css';
import { more, possible, words } from './words';

const route = getRouteApi('/workspaces/$id');

/** Everything about one workspace. */
export function WorkspacePage() {
  const { id } = route.useParams();
  const navigate = useNavigate();
  const { connection, workspaces, operations } = useLive();
  const me = useCapabilities().data;
  const workspace = workspaces.get(id);
  const above = <Link to="/">My workspaces</Link>;
  if (!me) return null;
  if (!workspace) {
    return (
      <Page title={id} above={above}>
        {connection === 'connecting' ? (
          <Loading what="the workspace" rows={1} />
        ) : (
          <Empty title="There is no such workspace">
            <p>It was deleted, or it is not yours. Your list has those that you may see.</p>
          </Empty>
        )}
      </Page>
    );
  }
  const { text, tone } = words[workspace.status];
  const said = more(workspace);
  const url = workspace.url ?? workspace.pathUrl;
  const concerning = operations.filter(({ targets }) => targets.some((target) => target.id === id));
  return (
    <Page title={workspace.name} above={above}>
      <Card label="State">
        <div className={styles.stack} data-workspace={id} data-status={workspace.status}>
          <div className={styles.head}>
            <Badge tone={tone}>{text}</Badge>
            {workspace.outdated === true && <Badge tone="warn">Outdated</Badge>}
          </div>
          {said && <p className={styles.message}>{said}</p>}
          {workspace.lastUpgradeError && (
            <p className={styles.error}>
              The last upgrade failed: {sentence(workspace.lastUpgradeError)} The workspace stays on version{' '}
              <code>{workspace.version}</code>; mend the template and upgrade again.
            </p>
          )}
          <Progress workspace={workspace} />
          <Actions all workspace={workspace} me={me} onDeleted={() => void navigate({ to: '/' })} />
        </div>
      </Card>
      <Card label="Details">
        <Facts>
          <Fact name="Id">
            <code>{workspace.id}</code>
          </Fact>
          <Fact name="Owner">{workspace.owner}</Fact>
          <Fact name="Template">
            <Link to="/templates/$name" params={{ name: workspace.template }}>
              {workspace.template}
            </Link>
          </Fact>
          <Fact name="Version">
            <Version workspace={workspace} />
          </Fact>
          {workspace.previousVersion && (
            <Fact name="Version before">
              <code>{workspace.previousVersion}</code>
            </Fact>
          )}
          {workspace.lastUpgrade && (
            <Fact name="Last upgrade">
              <LastUpgrade upgrade={workspace.lastUpgrade} />
            </Fact>
          )}
          {workspace.podName && (
            <Fact name="Pod">
              <code>{workspace.podName}</code>
            </Fact>
          )}
          {url && (
            <Fact name="Address">
              <code>{url}</code>
            </Fact>
          )}
          {workspace.ports && (
            <Fact name="Ports">
              <Ports workspace={workspace} me={me} />
            </Fact>
          )}
          {workspace.claims && <Fact name="Volumes">{workspace.claims.join(', ')}</Fact>}
          <Fact name="Made">
            <When at={workspace.createdAt} />
          </Fact>
        </Facts>
      </Card>
      {possible(workspace, me).postpone && (
        <Card label="Upgrades">
          <NotBefore key={id} workspace={workspace} />
        </Card>
      )}
      {concerning.length > 0 && (
        <Card label="Operations">
          <h2>Operations</h2>
          <OperationList operations={concerning} />
        </Card>
      )}
    </Page>
  );
}

function LastUpgrade({ upgrade }: { upgrade: Upgrade }) {
  return (
    <>
      <code>{upgrade.from}</code> <span aria-hidden="true">→</span>
      <span className="visually-hidden">to</span> <code>{upgrade.to}</code>,{' '}
      <Link to="/operations/$id" params={{ id: upgrade.operationId }}>
        {states[upgrade.state].text.toLowerCase()}
      </Link>{' '}
      <When at={upgrade.finishedAt ?? upgrade.startedAt} />, asked for by {upgrade.actor}
    </>
  );
}
