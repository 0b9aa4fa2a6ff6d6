import type { ReactNode } from 'react';
import {
  Checkbox as AriaCheckbox,
  NumberField as AriaNumberField,
  Select as AriaSelect,
  TextField as AriaTextField,
  Button,
  FieldError,
  Input,
  type Key,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  SelectValue,
  Text,
} from 'react-aria-components';
import styles from './Field.module.css';

interface Common {
  label: string;
  name?: string;
  help?: ReactNode;
  isRequired?: boolean;
}

const Named = ({ label, isRequired }: { label: string; isRequired: boolean | undefined }) => (
  <Label>
    {label}
    {isRequired && <span className={styles.required}> (required)</span>}
  </Label>
);

/** What is wrong, in a line that a form may keep free for it: nothing may move under a button that is pressed. */
const Wrong = () => (
  <div className={styles.wrong}>
    <FieldError className={styles.error ?? ''} />
  </div>
);

const Help = ({ children }: { children: ReactNode }) =>
  children ? (
    <Text slot="description" className={styles.help}>
      {children}
    </Text>
  ) : null;

interface TextProps extends Common {
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  autoFocus?: boolean;
  type?: 'text' | 'search';
}

/** A line of text. What is wrong with it is said beside it, in the browser's words. */
export function TextField({ label, help, placeholder, type = 'text', ...props }: TextProps) {
  return (
    <AriaTextField {...props} type={type} autoComplete="off" className={styles.field ?? ''}>
      <Named label={label} isRequired={props.isRequired} />
      <Input className={styles.input ?? ''} placeholder={placeholder} spellCheck={false} />
      <Help>{help}</Help>
      <Wrong />
    </AriaTextField>
  );
}

interface MomentProps extends Common {
  /** As `2026-12-01T10:00`, by the reader's clock; empty is none. */
  value: string;
  onChange: (value: string) => void;
}

/** A day and an hour, chosen by the browser's own means. */
export function MomentField({ label, help, ...props }: MomentProps) {
  return (
    <AriaTextField {...props} type="datetime-local" className={styles.field ?? ''}>
      <Named label={label} isRequired={props.isRequired} />
      <Input className={styles.input ?? ''} />
      <Help>{help}</Help>
      <Wrong />
    </AriaTextField>
  );
}

interface NumberProps extends Common {
  value: number;
  onChange: (value: number) => void;
  minValue?: number;
  maxValue?: number;
  placeholder?: string;
}

/** A whole number; NaN is none. */
export function NumberField({ label, help, placeholder, ...props }: NumberProps) {
  return (
    <AriaNumberField
      {...props}
      className={styles.field ?? ''}
      formatOptions={{ useGrouping: false, maximumFractionDigits: 0 }}
    >
      <Named label={label} isRequired={props.isRequired} />
      <Input className={styles.input ?? ''} placeholder={placeholder} />
      <Help>{help}</Help>
      <Wrong />
    </AriaNumberField>
  );
}

interface SelectProps extends Common {
  options: { id: string; text: string }[];
  value: string | null;
  onChange: (value: string | null) => void;
  placeholder?: string;
}

/** One of several. */
export function Select({ label, help, options, value, onChange, placeholder, ...props }: SelectProps) {
  return (
    <AriaSelect
      {...props}
      className={styles.field ?? ''}
      value={value}
      onChange={(key: Key | null) => onChange(key === null ? null : String(key))}
      placeholder={placeholder ?? 'Choose'}
    >
      <Named label={label} isRequired={props.isRequired} />
      <Button className={`${styles.input} ${styles.select}`}>
        <SelectValue />
        <span aria-hidden="true">▾</span>
      </Button>
      <Help>{help}</Help>
      <Wrong />
      <Popover className={styles.popover ?? ''}>
        <ListBox className={styles.list ?? ''} items={options}>
          {(option) => (
            <ListBoxItem className={styles.option ?? ''} id={option.id} textValue={option.text}>
              {option.text}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
}

interface CheckboxProps {
  isSelected: boolean;
  onChange: (selected: boolean) => void;
  children: ReactNode;
}

export function Checkbox({ children, ...props }: CheckboxProps) {
  return (
    <AriaCheckbox {...props} className={styles.checkbox ?? ''}>
      <span className={styles.box} aria-hidden="true">
        <svg viewBox="0 0 16 16" role="presentation">
          <path d="M3 8.5l3.2 3.2L13 5" fill="none" stroke="currentColor" strokeWidth="2" />
        </svg>
      </span>
      <span>{children}</span>
    </AriaCheckbox>
  );
}
