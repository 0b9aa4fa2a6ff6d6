import type { ReactNode } from 'react';
import { Button as AriaButton, type ButtonProps } from 'react-aria-components';
import styles from './Button.module.css';

export type Look = 'plain' | 'primary' | 'danger' | 'danger-solid' | 'quiet';

/** The classes of a link that looks like a button. */
export const buttonClass = (look: Look = 'plain') => `${styles.button} ${styles[look] ?? ''}`.trim();

interface Props extends Omit<ButtonProps, 'className' | 'children'> {
  look?: Look;
  children: ReactNode;
}

/** A button. While `isPending` it keeps the focus and takes no presses. */
export function Button({ look = 'plain', children, ...props }: Props) {
  return (
    <AriaButton {...props} className={buttonClass(look)}>
      {children}
    </AriaButton>
  );
}
