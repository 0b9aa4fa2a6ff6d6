import { useState } from 'react';
import type { CreatedToken } from '../api/types';
import { Button } from '../components/Button';
import { Dialog } from '../components/Dialog';
import { When } from '../components/Page';
import styles from './Tokens.module.css';

/** The one time that a token is shown. No click beside it loses it. */
export function NewToken({ token, onClose }: { token: CreatedToken; onClose: () => void }) {
  const [said, setSaid] = useState('');
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(token.token);
      setSaid('Copied.');
    } catch {
      setSaid('Your browser does not let it be copied. Select it and copy it by hand.');
    }
  };
  return (
    <Dialog
      alert
      wide
      isOpen
      onClose={onClose}
      title={`Your token “${token.name}”`}
      actions={
        <>
          <Button autoFocus look="primary" onPress={() => void copy()}>
            Copy token
          </Button>
          <Button onPress={onClose}>I have it</Button>
        </>
      }
    >
      <p>
        Copy it now: it is not shown again, and kept nowhere. It ends <When at={token.expiresAt} />.
      </p>
      <code className={styles.token} data-secret>
        {token.token}
      </code>
      <p role="status" className={styles.said}>
        {said}
      </p>
    </Dialog>
  );
}
