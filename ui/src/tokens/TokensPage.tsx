import { type FormEvent, useState } from 'react';
import { Form } from 'react-aria-components';
import { useCapabilities, useCreateToken, useTokens } from '../api/queries';
import type { CreatedToken, Token } from '../api/types';
import { Badge } from '../components/Badge';
import { Button } from '../components/Button';
import { Select, TextField } from '../components/Field';
import { Card, Empty, Loading, Page, Trouble, When } from '../components/Page';
import rows from '../components/Rows.module.css';
import { NewToken } from './NewToken';
import { RevokeDialog } from './RevokeDialog';
import styles from './Tokens.module.css';
import { ends, LIVES, type Reach, reaches, reachOf, scopesOf } from './words';

/** What scripts and agents sign in with in one's own name. */
export function TokensPage() {
  const tokens = useTokens();
  const [made, setMade] = useState<CreatedToken>();
  const [revoking, setRevoking] = useState<Token>();
  return (
    <Page title="Access tokens">
      <p className={rows.lead}>
        For scripts, and for agents that cannot sign in. A token speaks for you, within what you let it do.
      </p>
      <Create onCreated={setMade} />
      {tokens.isPending ? (
        <Loading what="access tokens" />
      ) : tokens.isError ? (
        <Trouble error={tokens.error}>
          <Button onPress={() => void tokens.refetch()}>Try again</Button>
        </Trouble>
      ) : tokens.data.tokens.length === 0 ? (
        <Empty title="You have no access token">
          <p>Create one above. It is shown once, and can be revoked here at any time.</p>
        </Empty>
      ) : (
        <ul className={rows.list} aria-label="Your access tokens">
          {tokens.data.tokens.map((token) => (
            <Row key={token.id} token={token} onRevoke={() => setRevoking(token)} />
          ))}
        </ul>
      )}
      {made && <NewToken token={made} onClose={() => setMade(undefined)} />}
      {revoking && <RevokeDialog token={revoking} onClose={() => setRevoking(undefined)} />}
    </Page>
  );
}

function Create({ onCreated }: { onCreated: (token: CreatedToken) => void }) {
  const create = useCreateToken();
  const isAdmin = useCapabilities().data?.isAdmin ?? false;
  const [name, setName] = useState('');
  const [reach, setReach] = useState<Reach>('look');
  const [life, setLife] = useState('30');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create.mutate(
      { name: name.trim(), scopes: scopesOf(reach), expiresInDays: Number(life) },
      {
        onSuccess: (token) => {
          setName('');
          create.reset();
          onCreated(token);
        },
      },
    );
  };
  return (
    <Card label="New access token">
      <h2>New access token</h2>
      <Form className={styles.form ?? ''} onSubmit={submit}>
        <TextField
          label="Name"
          name="name"
          value={name}
          onChange={setName}
          isRequired
          maxLength={64}
          help="What it is for, so that you know it again."
        />
        <Select
          label="It may"
          options={reaches(isAdmin)}
          value={reach}
          onChange={(next) => next && setReach(next as Reach)}
        />
        <Select
          label="It ends after"
          options={LIVES}
          value={life}
          onChange={(next) => next && setLife(next)}
        />
        {create.isError && <Trouble error={create.error} />}
        <div>
          <Button type="submit" look="primary" isPending={create.isPending}>
            Create token
          </Button>
        </div>
      </Form>
    </Card>
  );
}

function Row({ token, onRevoke }: { token: Token; onRevoke: () => void }) {
  return (
    <li className={rows.row} data-token={token.id}>
      <div className={rows.facts}>
        <div className={rows.head}>
          <h2>{token.name}</h2>
          <Badge tone={token.expired ? 'bad' : 'soft'}>{ends(token, Date.now())}</Badge>
        </div>
        <p>{reachOf(token)}</p>
        <p className={rows.soft}>
          <span>
            Created <When at={token.createdAt} />
          </span>
          <span>
            {token.lastUsedAt ? (
              <>
                Last used about <When at={token.lastUsedAt} />
              </>
            ) : (
              'Never used'
            )}
          </span>
        </p>
      </div>
      <Button look="danger" onPress={onRevoke} aria-label={`Revoke ${token.name}`}>
        Revoke
      </Button>
    </li>
  );
}
