import { Checkbox, NumberField, Select, TextField } from '../components/Field';
import type { Field, Value } from './inputs';
import styles from './Spawn.module.css';

interface Props {
  field: Field;
  value: Value;
  onChange: (value: Value) => void;
}

/** The field of one parameter. */
export function ParameterField({ field, value, onChange }: Props) {
  const { parameter } = field;
  const common = { label: field.label, help: field.help, name: field.name, isRequired: field.isRequired };
  switch (field.kind) {
    case 'choice':
      return (
        <Select
          {...common}
          options={field.choices}
          value={value === undefined ? null : String(value)}
          placeholder={field.placeholder ? `${field.placeholder} (default)` : 'Choose'}
          onChange={(id) => onChange(field.choices.find((choice) => choice.id === id)?.value)}
        />
      );
    case 'number':
      return (
        <NumberField
          {...common}
          value={typeof value === 'number' ? value : Number.NaN}
          placeholder={field.placeholder}
          minValue={parameter.minimum}
          maxValue={parameter.maximum}
          onChange={onChange}
        />
      );
    case 'switch':
      return (
        <div className={styles.switch}>
          <Checkbox
            isSelected={value === undefined ? parameter.default === true : value === true}
            onChange={onChange}
          >
            {field.label}
          </Checkbox>
          {field.help && <p className={styles.help}>{field.help}</p>}
        </div>
      );
    case 'text':
      return (
        <TextField
          {...common}
          value={typeof value === 'string' ? value : ''}
          placeholder={field.placeholder}
          minLength={parameter.minLength}
          maxLength={parameter.maxLength}
          onChange={onChange}
        />
      );
  }
}
