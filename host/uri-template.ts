/** The names of the variables of a URI template, as a type. */
export type VariablesOf<T extends string> = string extends T
  ? string
  : T extends `${string}{${infer Expression}}${infer Rest}`
    ? NamesOf<Expression> | VariablesOf<Rest>
    : never;
type NamesOf<E extends string> = E extends `+${infer Name}` ? Name : E extends `?${infer List}` ? Listed<List> : E;
type Listed<L extends string> = L extends `${infer Name},${infer Rest}` ? Name | Listed<Rest> : L;

/** The longest URI that is looked at. */
export const longestUri = 4096;
const name = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * A URI template: `{name}` stands for one segment, `{+name}` for text with slashes, and `{?a,b}` at the end for parameters
 * that may be missing (RFC 6570, a part of it).
 */
export class UriTemplate {
  readonly text: string;
  readonly names: readonly string[];
  readonly #shape: RegExp;
  readonly #path: readonly string[];
  readonly #query: readonly string[];

  constructor(text: string) {
    const path: string[] = [];
    const query: string[] = [];
    let shape = '';
    let at = 0;
    for (const { 0: expression, 1: inner = '', index } of text.matchAll(/\{([^{}]*)\}/g)) {
      const literal = text.slice(at, index);
      const operator = /^[+?]/.exec(inner)?.[0] ?? '';
      const names = inner.slice(operator.length).split(',');
      at = index + expression.length;
      if (query.length > 0 || !names.every((one) => name.test(one)) || (operator !== '?' && names.length > 1)) {
        throw wrong(text, 'expected {name}, {+name}, or {?name,…} at the end');
      }
      if (path.length > 0 && literal === '' && operator !== '?') {
        throw wrong(text, 'expected text between two variables');
      }
      shape += escaped(literal);
      if (operator === '?') query.push(...names);
      else path.push(...names);
      if (operator !== '?') shape += operator === '+' ? '([^?#]+)' : '([^/?#]+)';
    }
    const rest = text.slice(at);
    if (/[{}]/.test(rest) || (query.length > 0 && rest !== '')) throw wrong(text, 'it does not end well');
    this.names = [...path, ...query];
    if (this.names.length === 0) throw wrong(text, 'expected a variable; without one it is a resource');
    if (new Set(this.names).size < this.names.length) throw wrong(text, 'expected variables of different names');
    if (!URL.canParse(text.replaceAll(/\{[^}]*\}/g, 'x'))) throw wrong(text, 'expected an absolute URI');
    this.text = text;
    this.#path = path;
    this.#query = query;
    this.#shape = new RegExp(`^${shape}${escaped(rest)}${query.length > 0 ? '(?:\\?([^#]*))?' : ''}$`);
  }

  /** The variables of a URI of this shape; `undefined` for another URI. */
  match(uri: string): Record<string, string> | undefined {
    const found = uri.length > longestUri ? null : this.#shape.exec(uri);
    if (found === null) return undefined;
    try {
      const values = this.#path.map((one, index) => [one, decodeURIComponent(found[index + 1] ?? '')]);
      const query = new URLSearchParams(found[this.#path.length + 1] ?? '');
      for (const one of this.#query) if (query.has(one)) values.push([one, query.get(one) ?? '']);
      return Object.fromEntries(values);
    } catch (error) {
      // A percent sign that encodes nothing: no URI that this template makes.
      if (error instanceof URIError) return undefined;
      throw error;
    }
  }
}

function escaped(literal: string): string {
  return literal.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

function wrong(text: string, why: string): TypeError {
  return new TypeError(`resource template "${text}": ${why}`);
}
