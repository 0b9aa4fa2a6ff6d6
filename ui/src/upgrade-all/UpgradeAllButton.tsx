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
