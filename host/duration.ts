const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The longest lifetime that can be asked for: ten years, in milliseconds. */
export const longestDuration = 3650 * 86_400_000;

/** What {@link parseDuration} reads, in words. */
export const durationForms = 'a time of 1ms to 3650d, such as 500ms, 90s, 10m, 1h or 30d';

/**
 * Milliseconds of `500ms`, `90s`, `10m`, `1h` or `30d`; a fraction such as `1.5h` is rounded up. `undefined` for anything
 * else: no unit, 0, less than nothing, and more than ten years.
 */
export function parseDuration(text: string): number | undefined {
  const [, number = '', unit = ''] = /^(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d)$/.exec(text) ?? [];
  const milliseconds = Math.ceil(Number(number) * (units[unit] ?? Number.NaN));
  return milliseconds >= 1 && milliseconds <= longestDuration ? milliseconds : undefined;
}

/** The text that {@link parseDuration} reads as that many milliseconds, in the largest unit that fits exactly. */
export function formatDuration(milliseconds: number): string {
  let text = `${milliseconds}ms`;
  for (const [unit, size] of Object.entries(units)) {
    if (milliseconds % size === 0) text = `${milliseconds / size}${unit}`;
  }
  return text;
}
