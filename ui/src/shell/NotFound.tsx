import { Link } from '@tanstack/react-router';
import { Empty, Page } from '../components/Page';

export function NotFound() {
  return (
    <Page title="There is no such page">
      <Empty title="Nothing is at this address">
        <p>
          Perhaps it was mistyped. <Link to="/">Go to your workspaces</Link>.
        </p>
      </Empty>
    </Page>
  );
}
