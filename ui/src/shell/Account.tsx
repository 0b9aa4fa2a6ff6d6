import { useNavigate } from '@tanstack/react-router';
import { useRef } from 'react';
import {
  Button,
  Header,
  Menu,
  MenuItem,
  MenuSection,
  MenuTrigger,
  Popover,
  Separator,
} from 'react-aria-components';
import type { Capabilities } from '../api/types';
import styles from './Account.module.css';
import { type Theme, useTheme } from './theme';

const THEMES: { id: Theme; text: string }[] = [
  { id: 'system', text: 'As the system' },
  { id: 'light', text: 'Light' },
  { id: 'dark', text: 'Dark' },
];

/** Who is signed in, how the console looks, their sessions and tokens, and the way out. */
export function Account({ capabilities }: { capabilities: Capabilities }) {
  const [theme, setTheme] = useTheme();
  const navigate = useNavigate();
  const form = useRef<HTMLFormElement>(null);
  return (
    <>
      <MenuTrigger>
        <Button className={styles.button ?? ''}>
          <span className={styles.face} data-initial={capabilities.sub.charAt(0).toUpperCase()} />
          <span className="visually-hidden">Account </span>
          <span className={styles.name}>{capabilities.sub}</span>
          {capabilities.isAdmin && <span className={styles.admin}>admin</span>}
        </Button>
        <Popover className={styles.popover ?? ''} placement="bottom end">
          <Menu className={styles.menu ?? ''}>
            <MenuSection
              selectionMode="single"
              disallowEmptySelection
              selectedKeys={[theme]}
              onSelectionChange={(keys) => {
                const [next] = keys;
                if (next !== undefined) setTheme(next as Theme);
              }}
            >
              <Header className={styles.heading ?? ''}>Theme</Header>
              {THEMES.map(({ id, text }) => (
                <MenuItem key={id} id={id} className={styles.item ?? ''}>
                  {text}
                </MenuItem>
              ))}
            </MenuSection>
            <Separator className={styles.separator ?? ''} />
            <MenuItem className={styles.item ?? ''} onAction={() => void navigate({ to: '/sessions' })}>
              Sessions
            </MenuItem>
            <MenuItem className={styles.item ?? ''} onAction={() => void navigate({ to: '/tokens' })}>
              Access tokens
            </MenuItem>
            <MenuItem className={styles.item ?? ''} onAction={() => form.current?.requestSubmit()}>
              Sign out
            </MenuItem>
          </Menu>
        </Popover>
      </MenuTrigger>
      {/* A form, since signing out leads to the identity provider's page. */}
      <form ref={form} method="post" action="/auth/logout" hidden />
    </>
  );
}
