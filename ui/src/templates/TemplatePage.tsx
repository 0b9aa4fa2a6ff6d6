import { getRouteApi, Link } from '@tanstack/react-router';
import { useCapabilities, useTemplate } from '../api/queries';
import type { Parameters } from '../api/types';
import { Button, buttonClass } from '../components/Button';
import { Card, Fact, Facts, Loading, Page, Trouble } from '../components/Page';
import styles from './Templates.module.css';

const route = getRouteApi('/templates/$name');

/** One template, to read. */
export function TemplatePage() {
  const { name } = route.useParams();
  const template = useTemplate(name);
  const canSpawn = useCapabilities().data?.canSpawn ?? false;
  const found = template.data;
  return (
    <Page
      title={name}
      above={<Link to="/templates">Templates</Link>}
      actions={
        found?.usable &&
        canSpawn && (
          <Link className={buttonClass('primary')} to="/new" search={{ template: name }}>
            Spawn
          </Link>
        )
      }
    >
      {template.isPending ? (
        <Loading what="the template" rows={2} />
      ) : template.isError ? (
        <Trouble error={template.error}>
          <Button onPress={() => void template.refetch()}>Try again</Button>
        </Trouble>
      ) : (
        <>
          <Card label="Details">
            <Facts>
              <Fact name="Version">
                <code>{found?.version}</code>
              </Fact>
              <Fact name="Images">
                {found?.images?.map((image) => (
                  <div key={image}>
                    <code>{image}</code>
                  </div>
                ))}
              </Fact>
            </Facts>
          </Card>
          {found?.parameters?.properties && <Taken parameters={found.parameters} />}
          <Card label="Pod spec">
            <h2>Pod spec</h2>
            {/* It scrolls, so it can be reached by keyboard. */}
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable */}
            <pre className={styles.spec} tabIndex={0}>
              {JSON.stringify(found?.spec, null, 2)}
            </pre>
          </Card>
        </>
      )}
    </Page>
  );
}

function Taken({ parameters }: { parameters: Parameters }) {
  const required = new Set(parameters.required);
  return (
    <Card label="Parameters">
      <h2>What can be set at spawn</h2>
      <dl className={styles.parameters}>
        {Object.entries(parameters.properties ?? {}).map(([name, parameter]) => (
          <div key={name}>
            <dt>
              <code>{name}</code> <span className={styles.soft}>{parameter.type}</span>
              {required.has(name) && <span className={styles.soft}>, required</span>}
            </dt>
            <dd>
              {parameter.description ?? parameter.title}
              {parameter.default !== undefined && (
                <span className={styles.soft}> Default: {String(parameter.default)}</span>
              )}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}
