import { useState } from 'react';
import { useLive } from '../api/live';
import type { Capabilities } from '../api/types';
import { Button } from '../components/Button';
import { UpgradeAllDialog } from './UpgradeAllDialog';

/** In the header, for admins, while there is something to upgrade. */
export function UpgradeAllButton({ capabilities }: { capabilities: Capabilities }) {
  const workspaces = [...useLive().workspaces.values()];
  const [isOpen, setOpen] = useState(false);
  const isShown = capabilities.isAdmin && workspaces.some(({ outdated }) => outdated === true);
  return (
    <>
      {isShown && (
        <Button look="primary" onPress={() => setOpen(true)}>
          Upgrade All Outdated
        </Button>
      )}
      {isOpen && <UpgradeAllDialog onClose={() => setOpen(false)} />}
    </>
  );
}

/** For admins, also where nothing is outdated: a new pod of the same version may be what is wanted. */
export function RenewAllButton() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onPress={() => setOpen(true)}>Upgrade all…</Button>
      {isOpen && <UpgradeAllDialog from="all" onClose={() => setOpen(false)} />}
    </>
  );
}
