// Moments between the API, which tells them in UTC, and a field, which has them by the reader's clock.

const two = (number: number) => String(number).padStart(2, '0');

/** As a field has it; nothing and nonsense are empty. */
export function toLocal(moment: string | undefined): string {
  const at = new Date(moment ?? Number.NaN);
  if (Number.isNaN(at.getTime())) return '';
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`;
}

/** As the API takes it; nothing and nonsense are null. */
export function fromLocal(value: string): string | null {
  const at = new Date(value);
  return value === '' || Number.isNaN(at.getTime()) ? null : at.toISOString();
}
