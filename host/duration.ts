const units: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const longest = 3650 * 86_400_000;

/** Milliseconds of `500ms`, `90s`, `10m`, `1h` or `30d`; `undefined` for anything else, 0 and more than ten years. */
export function parseDuration(text: string): number | undefined {
  const [, number = '', unit = ''] = /^(\d{1,15}(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text) ?? [];
  const milliseconds = Math.ceil(Number(number) * (units[unit] ?? Number.NaN));
  return milliseconds >= 1 && milliseconds <= longest ? milliseconds : undefined;
}
