import { getRouteApi } from '@tanstack/react-router';
import { useDeferredValue, useState } from 'react';
import { useLive } from '../api/live';
import { useCapabilities } from '../api/queries';
import { Button } from '../components/Button';
import { Select, TextField } from '../components/Field';
import { Empty, Loading, Page } from '../components/Page';
import { RenewAllButton } from '../upgrade-all/UpgradeAllButton';
import styles from './List.module.css';
import { WorkspaceCard } from './WorkspaceCard';
import { grouped, type Show, shows } from './words';

/** Workspaces that are drawn at once: more than anybody reads, few enough to be quick. */
const MOST = 100;

const route = getRouteApi('/everyone');

/** For admins: everyone's workspaces, by owner. */
export function EveryonePage() {
  const { q = '', show } = route.useSearch();
  const navigate = route.useNavigate();
  const { connection, workspaces } = useLive();
  const me = useCapabilities().data;
  const [shown, setShown] = useState(MOST);
  const query = useDeferredValue(q);
  if (!me) return null;
  if (!me.isAdmin) {
    return (
      <Page title="Everyone’s workspaces">
        <Empty title="This page is for admins">
          <p>Only they see the workspaces of others.</p>
        </Empty>
      </Page>
    );
  }
  const kind: Show = shows.find(({ id }) => id === show)?.id ?? 'all';
  const groups = grouped(workspaces.values(), query, kind);
  const found = groups.reduce((sum, group) => sum + group.workspaces.length, 0);
  const search = (next: { q?: string; show?: string }) => {
    setShown(MOST);
    void navigate({ search: { q: q || undefined, show, ...next }, replace: true });
  };
  let room = shown;
  return (
    <Page title="Everyone’s workspaces" actions={workspaces.size > 0 && <RenewAllButton />}>
      <search className={styles.filters}>
        <TextField
          label="Find"
          type="search"
          value={q}
          onChange={(value) => search({ q: value || undefined })}
          placeholder="Name, owner, template, version"
        />
        <Select
          label="Show"
          options={shows}
          value={kind}
          onChange={(value) => search({ show: value === 'all' ? undefined : (value ?? undefined) })}
        />
      </search>
      {connection === 'connecting' ? (
        <Loading what="workspaces" />
      ) : groups.length === 0 ? (
        <Empty title={workspaces.size === 0 ? 'Nobody has a workspace yet' : 'Nothing fits'}>
          <p>
            {workspaces.size === 0
              ? 'As soon as somebody spawns one, it is listed here.'
              : `None of ${workspaces.size} workspaces is like that. Search for something else.`}
          </p>
        </Empty>
      ) : (
        <>
          <p role="status" className="visually-hidden">
            {found} workspaces found
          </p>
          {groups.map(({ owner, workspaces: theirs }) => {
            const visible = theirs.slice(0, Math.max(0, room));
            room -= visible.length;
            if (visible.length === 0) return null;
            return (
              <section key={owner} className={styles.group} aria-label={`Workspaces of ${owner}`}>
                <h2>
                  {owner}
                  <span className={styles.count}>
                    {theirs.length === 1 ? '1 workspace' : `${theirs.length} workspaces`}
                  </span>
                </h2>
                <ul className={styles.list}>
                  {visible.map((workspace) => (
                    <WorkspaceCard key={workspace.id} workspace={workspace} me={me} />
                  ))}
                </ul>
              </section>
            );
          })}
          {found > shown && (
            <Button onPress={() => setShown(shown + MOST)}>
              Show more of the {found - shown} that follow
            </Button>
          )}
        </>
      )}
    </Page>
  );
}
