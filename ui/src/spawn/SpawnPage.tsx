import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { type FormEvent, useState } from 'react';
import { Form } from 'react-aria-components';
import { useCapabilities, useSpawn, useTemplate, useTemplates } from '../api/queries';
import type { Capabilities, Template } from '../api/types';
import { Button, buttonClass } from '../components/Button';
import { TextField } from '../components/Field';
import { Card, Empty, Loading, Page, Trouble } from '../components/Page';
import { NoTemplate } from '../templates/TemplatesPage';
import { fields, inputs, type Values } from './inputs';
import { ParameterField } from './ParameterField';
import styles from './Spawn.module.css';

const route = getRouteApi('/new');

/** Choose a template, fill in what it takes. */
export function SpawnPage() {
  const { template } = route.useSearch();
  const me = useCapabilities().data;
  if (!me) return null;
  if (!me.canSpawn) {
    return (
      <Page title="New workspace" above={<Link to="/">My workspaces</Link>}>
        <Empty title="Your role lets you look, not spawn">
          <p>Ask an admin for the role “user”, or for a workspace.</p>
        </Empty>
      </Page>
    );
  }
  return template ? <FromTemplate key={template} name={template} me={me} /> : <Choose />;
}

function Choose() {
  const templates = useTemplates();
  const usable = templates.data?.filter((template) => template.usable) ?? [];
  return (
    <Page title="New workspace" above={<Link to="/">My workspaces</Link>}>
      {templates.isPending ? (
        <Loading what="templates" />
      ) : templates.isError ? (
        <Trouble error={templates.error}>
          <Button onPress={() => void templates.refetch()}>Try again</Button>
        </Trouble>
      ) : usable.length === 0 ? (
        <NoTemplate />
      ) : (
        <>
          <p className={styles.lead}>From which template?</p>
          <ul className={styles.choices}>
            {usable.map(({ name, parameters, images = [] }) => (
              <li key={name}>
                <Link className={styles.choice} to="/new" search={{ template: name }}>
                  <strong>{name}</strong>
                  <span className={styles.help}>{parameters?.description ?? images.join(', ')}</span>
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </Page>
  );
}

function FromTemplate({ name, me }: { name: string; me: Capabilities }) {
  const template = useTemplate(name);
  return (
    <Page title={`New workspace from ${name}`} above={<Link to="/new">Other templates</Link>}>
      {template.isPending ? (
        <Loading what="the template" rows={1} />
      ) : template.isError ? (
        <Trouble error={template.error} />
      ) : (
        <SpawnForm template={template.data} me={me} />
      )}
    </Page>
  );
}

function SpawnForm({ template, me }: { template: Template; me: Capabilities }) {
  const navigate = useNavigate();
  const spawn = useSpawn();
  const [name, setName] = useState('');
  const [id, setId] = useState('');
  const [owner, setOwner] = useState('');
  const [values, setValues] = useState<Values>({});
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const optional = { name: name.trim(), id: id.trim(), userSub: owner.trim() };
    const given = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== ''));
    spawn.mutate(
      { template: template.name, inputs: inputs(values), ...given },
      {
        onSuccess: (workspace) =>
          void (workspace.owner === me.sub
            ? navigate({ to: '/' })
            : navigate({ to: '/workspaces/$id', params: { id: workspace.id } })),
      },
    );
  };
  return (
    <Card>
      <Form className={styles.form ?? ''} onSubmit={submit}>
        <TextField
          label="Name"
          name="name"
          value={name}
          onChange={setName}
          maxLength={100}
          help="Shown to you; its id if left empty."
        />
        <TextField
          label="Id"
          name="id"
          value={id}
          onChange={setId}
          maxLength={40}
          pattern="[a-z0-9](-?[a-z0-9])*"
          help="Part of its address: a-z, 0-9 and single dashes. Made up if left empty."
        />
        {fields(template.parameters).map((field) => (
          <ParameterField
            key={field.name}
            field={field}
            value={values[field.name]}
            onChange={(value) => setValues((before) => ({ ...before, [field.name]: value }))}
          />
        ))}
        {me.isAdmin && (
          <TextField
            label="Owner"
            name="userSub"
            value={owner}
            onChange={setOwner}
            help="For admins: the subject of whoever shall own it. You, if left empty."
          />
        )}
        {spawn.isError && <Trouble error={spawn.error} />}
        <div className={styles.buttons}>
          <Button type="submit" look="primary" isPending={spawn.isPending}>
            Spawn
          </Button>
          <Link className={buttonClass()} to="/">
            Cancel
          </Link>
        </div>
      </Form>
    </Card>
  );
}
