// From a template's parameters to a form, and from the form to what is sent. Empty fields are fields
// that were left out, so that the template's defaults count, today's and tomorrow's.

import type { Parameter, Parameters } from '../api/types';

export type Value = string | number | boolean | undefined;
export type Values = Record<string, Value>;

export type Kind = 'text' | 'number' | 'choice' | 'switch';

export interface Field {
  name: string;
  label: string;
  help: string | undefined;
  kind: Kind;
  isRequired: boolean;
  /** What an empty field stands for. */
  placeholder: string | undefined;
  choices: { id: string; text: string; value: string | number | boolean }[];
  parameter: Parameter;
}

export function fields(parameters: Parameters | undefined): Field[] {
  const required = new Set(parameters?.required);
  return Object.entries(parameters?.properties ?? {}).map(([name, parameter]) => ({
    name,
    label: parameter.title ?? name,
    help: parameter.description,
    kind: kind(parameter),
    // What a default stands for need not be filled in.
    isRequired: required.has(name) && parameter.default === undefined,
    placeholder: parameter.default === undefined ? undefined : String(parameter.default),
    choices: (parameter.enum ?? []).map((value) => ({ id: String(value), text: String(value), value })),
    parameter,
  }));
}

function kind({ type, enum: allowed }: Parameter): Kind {
  if (allowed) return 'choice';
  if (type === 'integer') return 'number';
  return type === 'boolean' ? 'switch' : 'text';
}

/** What is sent of what was filled in. */
export function inputs(values: Values): Record<string, string | number | boolean> {
  const sent: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === '' || Number.isNaN(value)) continue;
    sent[name] = value;
  }
  return sent;
}
