import { useNavigate } from '@tanstack/react-router';
import type { Command } from '../api/client';
import { useCommand, useRetry } from '../api/queries';
import type { Capabilities, Operation } from '../api/types';
import { Button } from '../components/Button';
import { Trouble } from '../components/Page';
import styles from './Operations.module.css';
import { isBulk, possible } from './words';

/** What can be said to an operation now, and what went wrong with what was said. */
export function Commands({ operation, me }: { operation: Operation; me: Capabilities }) {
  const navigate = useNavigate();
  const command = useCommand(operation.operationId);
  const retry = useRetry(operation.operationId);
  const can = possible(operation, me);
  const isBusy = command.isPending || retry.isPending;
  const button = (name: Command, text: string, look: 'plain' | 'primary' = 'plain') => (
    <Button
      look={look}
      isPending={command.isPending && command.variables === name}
      isDisabled={isBusy && command.variables !== name}
      onPress={() => command.mutate(name)}
    >
      {text}
    </Button>
  );
  const again = () =>
    retry.mutate(undefined, {
      onSuccess: ({ operationId }) => {
        if (operationId) void navigate({ to: '/operations/$id', params: { id: operationId } });
      },
    });
  if (!Object.values(can).some(Boolean)) return null;
  const many = isBulk(operation);
  return (
    <>
      <div className={styles.commands}>
        {can.approve && button('resume', 'Upgrade the rest', 'primary')}
        {can.resume && button('resume', 'Resume', 'primary')}
        {can.pause && button('pause', 'Pause')}
        {can.cancel && button('cancel', many ? 'Cancel the rest' : 'Cancel')}
        {can.retry && (
          <Button isPending={retry.isPending} onPress={again}>
            {many ? 'Try the failed again' : 'Try again'}
          </Button>
        )}
      </div>
      {command.isError && <Trouble error={command.error} />}
      {retry.isError && <Trouble error={retry.error} />}
      {retry.data && !retry.data.operationId && <p role="status">{retry.data.next}</p>}
    </>
  );
}
