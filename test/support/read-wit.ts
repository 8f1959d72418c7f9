/** One declared thing in a WIT file: where it is, what stands above it, and what is wrong with that. */
export interface WitItem {
  readonly line: number;
  readonly within: string;
  readonly text: string;
  readonly documented: boolean;
  readonly gated: boolean;
  /** Whether the gate stands above the comment, where the tools take the comment for another item's. */
  readonly misplaced: boolean;
}

const opens = /^(interface|world|record|variant|enum|flags|resource)\s/;

/** The items of a WIT file, in order. Reads the layout that our own files have: one item, or one brace, a line. */
export function readWit(source: string): WitItem[] {
  const items: WitItem[] = [];
  const within: string[] = ['package'];
  let above = { documented: false, gated: false, misplaced: false };
  for (const [index, raw] of source.split('\n').entries()) {
    const text = raw.trim();
    if (text === '') {
      above = { documented: false, gated: false, misplaced: false };
    } else if (text.startsWith('///')) {
      above = { ...above, documented: true, misplaced: above.gated };
    } else if (text.startsWith('@')) {
      above = { ...above, gated: true };
    } else if (/^[})]/.test(text)) {
      within.pop();
    } else if (!text.startsWith('//')) {
      items.push({ line: index + 1, within: within.at(-1) ?? '', text, ...above });
      above = { documented: false, gated: false, misplaced: false };
      if (text.endsWith('{')) within.push(opens.exec(text)?.[1] ?? 'unknown');
      else if (text.endsWith('(')) within.push('parameters');
    }
  }
  return items;
}

/** What the item lacks, in words. */
export function faultsOf(item: WitItem): string[] {
  const faults: string[] = [];
  const isUse = item.text.startsWith('use ');
  const isWorldItem = item.within === 'world';
  const isPackage = item.text.startsWith('package ');
  if (!item.documented && !isUse && !isWorldItem && !isPackage) faults.push('no comment');
  const gates = ['package', 'interface', 'resource'].includes(item.within) && !isPackage;
  if (gates && !item.gated) faults.push('no gate');
  if (item.misplaced) faults.push('the gate stands above the comment');
  if (item.within === 'unknown') faults.push('not understood');
  return faults.map((fault) => `line ${item.line}, ${item.text}: ${fault}`);
}

/** The members of a resource, without comments, gates and layout. */
export function membersOf(source: string, resource: string): string[] {
  const start = source.search(new RegExp(`^ *resource ${resource} \\{`, 'm'));
  const body = source.slice(source.indexOf('{', start) + 1, source.indexOf('\n    }', start));
  const bare = body.replace(/\/\/.*$/gm, '').replace(/@\w+\([^)]*\)/g, '');
  return bare
    .split(';')
    .map((member) => member.replace(/\s+/g, ' ').replace(/\( /g, '(').replace(/,? \)/g, ')').trim())
    .filter((member) => member !== '');
}
