import { Link } from '@tanstack/react-router';
import { useCapabilities, useTemplates } from '../api/queries';
import type { Template } from '../api/types';
import { Badge } from '../components/Badge';
import { Button, buttonClass } from '../components/Button';
import { Empty, Loading, Page, Trouble } from '../components/Page';
import styles from './Templates.module.css';

/** What workspaces are made from. */
export function TemplatesPage() {
  const templates = useTemplates();
  const canSpawn = useCapabilities().data?.canSpawn ?? false;
  return (
    <Page title="Templates">
      {templates.isPending ? (
        <Loading what="templates" />
      ) : templates.isError ? (
        <Trouble error={templates.error}>
          <Button onPress={() => void templates.refetch()}>Try again</Button>
        </Trouble>
      ) : templates.data.length === 0 ? (
        <NoTemplate />
      ) : (
        <ul className={styles.list}>
          {templates.data.map((template) => (
            <Row key={template.name} template={template} canSpawn={canSpawn} />
          ))}
        </ul>
      )}
    </Page>
  );
}

/** What to say where there is none. */
export function NoTemplate() {
  return (
    <Empty title="There is no template for you yet">
      <p>
        A template is a ConfigMap labelled <code>nogoo9/pod-template=true</code> with a pod spec in it. An
        admin adds one with <code>kubectl apply</code>; it shows here at once.
      </p>
    </Empty>
  );
}

function Row({ template, canSpawn }: { template: Template; canSpawn: boolean }) {
  const { name, version, images = [], problem, usable, parameters } = template;
  return (
    <li className={styles.row} data-template={name}>
      <div className={styles.head}>
        <h2>
          <Link to="/templates/$name" params={{ name }}>
            {name}
          </Link>
        </h2>
        {!usable && <Badge tone="bad">Cannot be used</Badge>}
      </div>
      {parameters?.description && <p>{parameters.description}</p>}
      {problem && <p className={styles.error}>{problem}</p>}
      <p className={styles.soft}>
        {version && (
          <span>
            Version <code>{version}</code>
          </span>
        )}
        {images.map((image) => (
          <code key={image}>{image}</code>
        ))}
      </p>
      {usable && canSpawn && (
        <div>
          <Link
            className={buttonClass()}
            to="/new"
            search={{ template: name }}
            aria-label={`Spawn from ${name}`}
          >
            Spawn
          </Link>
        </div>
      )}
    </li>
  );
}
