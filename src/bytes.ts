const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** The base64url of `bytes`, without padding. One of the two engines has no `btoa`. */
export function toBase64Url(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const [a, b, c] = [bytes[at] ?? 0, bytes[at + 1] ?? 0, bytes[at + 2] ?? 0];
    const four = (a << 16) | (b << 8) | c;
    const count = Math.min(3, bytes.length - at) + 1;
    for (let digit = 0; digit < count; digit++) text += alphabet[(four >> (18 - 6 * digit)) & 63];
  }
  return text;
}

/** The bytes of a base64url text that {@link toBase64Url} made. */
export function fromBase64Url(text: string): Uint8Array {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let bits = 0;
  let held = 0;
  let to = 0;
  for (const digit of text) {
    bits = ((bits << 6) | alphabet.indexOf(digit)) & 0xffffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes[to++] = (bits >> held) & 0xff;
    }
  }
  return bytes;
}

const hex = Array.from({ length: 256 }, (_, byte) => `%${byte.toString(16).padStart(2, '0')}`);

/** The text whose UTF-8 is `bytes`, or `undefined` if they are none. One of the two engines has no `TextDecoder`. */
export function toText(bytes: Uint8Array): string | undefined {
  let escaped = '';
  for (const byte of bytes) escaped += byte < 0x80 && byte !== 0x25 ? String.fromCharCode(byte) : hex[byte];
  try {
    return decodeURIComponent(escaped);
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

/** How many bytes the UTF-8 of `text` has. */
export function utf8Length(text: string): number {
  let length = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit >= 0x80) length++;
    // A surrogate pair is two units and four bytes; each half counts two.
    if (unit >= 0x800 && (unit < 0xd800 || unit > 0xdfff)) length++;
  }
  return length;
}

/** Whether the UTF-8 of `text` has more than `limit` bytes; seldom has to count. */
export function longerThan(text: string, limit: number): boolean {
  if (text.length > limit) return true;
  return text.length * 3 > limit && utf8Length(text) > limit;
}
