import { useState } from 'react';
import { useNotBefore } from '../api/queries';
import type { Workspace } from '../api/types';
import { Button } from '../components/Button';
import { MomentField } from '../components/Field';
import { Trouble, When } from '../components/Page';
import { fromLocal, toLocal } from './moment';
import styles from './NotBefore.module.css';

/** Until when those who upgrade everything pass this workspace over. */
export function NotBefore({ workspace: { id, notBefore } }: { workspace: Workspace }) {
  const change = useNotBefore(id);
  const kept = toLocal(notBefore);
  const [edited, setEdited] = useState<string>();
  const value = edited ?? kept;
  const moment = fromLocal(value);
  const save = (next: string | null) => change.mutate(next, { onSuccess: () => setEdited(undefined) });
  return (
    <form
      className={styles.form}
      onSubmit={(event) => {
        event.preventDefault();
        if (moment && value !== kept) save(moment);
      }}
    >
      <MomentField
        label="Do not upgrade before"
        help="Until then nobody but its owner upgrades it; an upgrade of all passes it over."
        value={value}
        onChange={setEdited}
      />
      <div className={styles.buttons}>
        <Button type="submit" isDisabled={!moment || value === kept} isPending={change.isPending}>
          Save
        </Button>
        {notBefore && (
          <Button look="quiet" isDisabled={change.isPending} onPress={() => save(null)}>
            Upgrade any time
          </Button>
        )}
      </div>
      <p role="status" className={styles.said}>
        {notBefore ? (
          <>
            Not before <When at={notBefore} />
          </>
        ) : (
          'Any time'
        )}
      </p>
      {change.isError && <Trouble error={change.error} />}
    </form>
  );
}
