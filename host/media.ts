/** Whether a `Content-Type` says JSON. A charset must be UTF-8, which JSON is; other parameters do not matter. */
export function isJson(contentType: string | null): boolean {
  if (contentType === 'application/json') return true;
  if (contentType === null) return false;
  const [type = '', ...parameters] = contentType.split(';');
  if (type.trim().toLowerCase() !== 'application/json') return false;
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=');
    // Two headers arrive as one with a comma, which is no part of a media type.
    if (parameter.includes(',') && !parameter.includes('"')) return false;
    const charset = value.trim().toLowerCase().replaceAll('"', '');
    if (name.trim().toLowerCase() === 'charset' && charset !== 'utf-8' && charset !== 'utf8') return false;
  }
  return true;
}

/** Whether an `Accept` lists both kinds of answer that a POST may get. */
export function acceptsAnswers(accept: string | null): boolean {
  if (accept === 'application/json, text/event-stream') return true;
  return accepts(accept, 'application/json') && accepts(accept, 'text/event-stream');
}

/** Whether an `Accept` lists a media type: by name or wildcard, the most exact range decides, and `q=0` excludes. */
export function accepts(accept: string | null, type: string): boolean {
  if (accept === null) return false;
  const group = `${type.slice(0, type.indexOf('/'))}/*`;
  let best = 0;
  let accepted = false;
  for (const range of accept.toLowerCase().split(',')) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim());
    const exactness = name === type ? 3 : name === group ? 2 : name === '*/*' ? 1 : 0;
    if (exactness === 0 || exactness < best) continue;
    const positive = !parameters.some((parameter) => /^q\s*=\s*0(\.0*)?$/.test(parameter));
    accepted = exactness > best ? positive : accepted || positive;
    best = exactness;
  }
  return accepted;
}
