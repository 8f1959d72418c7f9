// wit/ and src/ -> types, components, glue and published JavaScript under dist/. Does only what changed inputs ask for.
//
//   node build.mjs [--quiet] [--force]
//
// Runs on Node 20 and newer, straight after `npm ci`. Writes to stderr alone, so that what runs next owns stdout.
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('.', import.meta.url));
process.chdir(root);

const { values: flags } = parseArgs({ options: { quiet: { type: 'boolean' }, force: { type: 'boolean' } } });

/** The WASI release that the engine inside componentize-js imports, whatever compatible one our WIT names. */
const engineWasi = '0.2.12';

/** What each component may import, exactly. `mcp:session/elicitation` holds types alone: nothing has to be provided. */
const allowedImports = {
  session: [
    'mcp:session/elicitation@0.1.0',
    `wasi:clocks/monotonic-clock@${engineWasi}`,
    `wasi:clocks/wall-clock@${engineWasi}`,
    `wasi:io/error@${engineWasi}`,
    `wasi:io/poll@${engineWasi}`,
    `wasi:io/streams@${engineWasi}`,
    'wasi:keyvalue/atomics@0.2.0-draft2',
    'wasi:keyvalue/batch@0.2.0-draft2',
    'wasi:keyvalue/store@0.2.0-draft2',
    `wasi:random/random@${engineWasi}`,
  ],
  transitions: [],
};

/** What is called of the interfaces that are imported. The component imports nothing else of them: no host need have it. */
const calledImports = new Set([
  'error error.to-debug-string',
  'poll pollable.block',
  'streams output-stream.check-write',
  'streams output-stream.write',
  'streams output-stream.blocking-flush',
  'streams output-stream.subscribe',
  'wall-clock now',
  'monotonic-clock now',
  'monotonic-clock subscribe-duration',
  'random get-random-bytes',
  'store bucket.get',
  'store bucket.set',
  'store bucket.delete',
  'atomics cas.new',
  'atomics cas.current',
  'atomics swap',
  'batch delete-many',
]);

const onStore = 'wasi:keyvalue/store@0.2.0-draft2#[method]bucket.';
const onSession = 'mcp:session/sessions@0.1.0#';

/** What `session.wasm` is suspended in over a bucket that answers later. It never waits itself: its host does. */
const asyncImports = [
  ...['get', 'set', 'delete'].map((name) => `${onStore}${name}`),
  ...['[static]cas.new', 'swap'].map((name) => `wasi:keyvalue/atomics@0.2.0-draft2#${name}`),
  'wasi:keyvalue/batch@0.2.0-draft2#delete-many',
];

/** The functions that look into the bucket. */
const asyncExports = [
  ...['initialize', 'initialize-in', 'open', 'open-in', 'delete'].map((name) => `${onSession}[static]session.${name}`),
  ...['get', 'set', 'remove', 'swap', 'keys', 'elicit', 'terminate', 'is-terminated'].map(
    (name) => `${onSession}[method]session.${name}`,
  ),
  ...['subscribe', 'elicit-result'].map((name) => `${onSession}[method]future-elicit-result.${name}`),
];

const steps = [
  {
    name: 'types',
    tools: ['@bytecodealliance/jco-transpile'],
    inputs: ['wit'],
    outputs: ['dist/types/guest/session-component.d.ts', 'dist/types/host/session-component.d.ts'],
    run: types,
  },
  {
    name: 'bundle',
    tools: ['esbuild', 'zod'],
    inputs: ['src'],
    outputs: ['dist/bundle/component.js', 'dist/bundle/transitions-component.js'],
    run: bundle,
  },
  {
    name: 'transitions.wasm',
    tools: ['componentize-qjs'],
    inputs: ['wit', 'dist/bundle/transitions-component.js'],
    outputs: ['dist/transitions.wasm'],
    run: componentizeTransitions,
  },
  {
    name: 'session.wasm',
    tools: ['@bytecodealliance/componentize-js', '@bytecodealliance/wizer', '@bytecodealliance/jco', 'binaryen'],
    inputs: ['wit', 'dist/bundle/component.js'],
    outputs: ['dist/session.wasm'],
    run: componentizeSession,
  },
  {
    name: 'transitions glue',
    tools: ['@bytecodealliance/jco', '@bytecodealliance/jco-transpile', 'esbuild'],
    after: 'transitions.wasm',
    outputs: ['dist/transitions/transitions.js', 'dist/transitions/modules.json'],
    run: () => transpile('transitions', { noComponentErrorWrapping: true }),
  },
  {
    name: 'session glue',
    tools: ['@bytecodealliance/jco', '@bytecodealliance/jco-transpile', 'esbuild'],
    after: 'session.wasm',
    outputs: ['dist/session/session.js', 'dist/session/modules.json'],
    run: () => transpile('session', {}),
  },
  {
    name: 'session-async glue',
    tools: ['@bytecodealliance/jco', '@bytecodealliance/jco-transpile', 'esbuild'],
    after: 'session.wasm',
    outputs: ['dist/session-async/session.js'],
    run: () => transpile('session', { asyncMode: 'jspi', asyncImports, asyncExports }, 'session-async'),
  },
  {
    name: 'host',
    tools: ['typescript'],
    inputs: ['host', 'src', 'test/bucket/contract.ts', 'tsconfig.json', 'tsconfig.package.json'],
    outputs: ['dist/host'],
    run: host,
  },
];

// --- Steps -----------------------------------------------------------------------------------------------------------

async function types() {
  const { generateGuestTypes, generateHostTypes } = await import('@bytecodealliance/jco-transpile');
  const options = { name: 'session-component', worldName: 'session-component' };
  writeFolder('dist/types/guest', await generateGuestTypes('wit', options));
  const forHost = await generateHostTypes('wit', { ...options, instantiation: { tag: 'sync' } });
  // The transpiler gives every resource that it hands out a dispose method, and leaves it out of the types.
  edit(
    forHost,
    'interfaces/mcp-session-sessions.d.ts',
    /private constructor\(\);\n/g,
    '$&  [Symbol.dispose](): void;\n',
  );
  edit(forHost, 'interfaces/mcp-session-transitions.d.ts', /^function /gm, 'declare function ');
  writeFolder('dist/types/host', forHost);
}

function edit(files, path, pattern, replacement) {
  const text = new TextDecoder().decode(files[path]);
  if (text.search(pattern) < 0) throw new Error(`the generated ${path} holds no ${pattern}`);
  files[path] = text.replace(pattern, replacement);
}

async function bundle() {
  const { build } = await import('esbuild');
  for (const name of ['component', 'transitions-component']) {
    await build({
      entryPoints: [`src/${name}.ts`],
      outfile: `dist/bundle/${name}.js`,
      bundle: true,
      format: 'esm',
      target: 'es2023',
      minify: true,
      keepNames: false,
      charset: 'utf8',
      plugins: [{ name: 'wit', setup: ({ onResolve }) => onResolve({ filter: /^[a-z]+:[a-z-]+\// }, external) }],
    });
  }
}

function external({ path }) {
  return { path: asEngine(path), external: true };
}

/** componentize-js drops an import of clocks or random that is not named exactly as its engine names it. */
function asEngine(text) {
  return text.replace(/(wasi:(?:io|clocks|random)(?:\/[a-z-]+)?)@0\.2\.\d+/g, `$1@${engineWasi}`);
}

function engineWit() {
  const files = Object.fromEntries(
    listFiles('wit').map((path) => {
      // `use` and `import` name the release behind the interface: wasi:io/poll@0.2.10.{pollable}
      const text = asEngine(readFileSync(path, 'utf8'));
      return [path.slice('wit/'.length), path.startsWith('wit/deps/') ? onlyCalled(text) : text];
    }),
  );
  for (const name of calledImports) {
    if (!Object.values(files).some((text) => functionNames(text.split('\n')).includes(name)))
      throw new Error(`no ${name} in wit/deps`);
  }
  writeFolder('dist/bundle/wit', files);
  return 'dist/bundle/wit';
}

/** WIT without the functions that are never called. Each of them stands on one line, its gate on the one before. */
function onlyCalled(text) {
  const lines = text.split('\n');
  const names = functionNames(lines);
  const isDropped = (at) => names[at] !== undefined && !calledImports.has(names[at]);
  const isGate = (at) => /^ *@/.test(lines[at] ?? '');
  return lines.filter((_, at) => !isDropped(at) && !(isGate(at) && isDropped(at + 1))).join('\n');
}

/** For each line, the function that it declares, if any: `INTERFACE NAME` or `INTERFACE RESOURCE.NAME`. */
function functionNames(lines) {
  const scopes = [];
  return lines.map((line) => {
    const opened = /^ *(?:interface|resource|variant|record) ([a-z0-9-]+) \{$/.exec(line);
    if (opened !== null) scopes.push(opened[1]);
    else if (/^ *\}$/.test(line)) scopes.pop();
    const declared = /^ *([a-z0-9-]+): (?:static )?func\(/.exec(line);
    return declared === null ? undefined : `${scopes[0]} ${[...scopes.slice(1), declared[1]].join('.')}`;
  });
}

async function componentizeSession() {
  const { transformSync } = await import('esbuild');
  const { splicer } = await import(
    './node_modules/@bytecodealliance/componentize-js/lib/spidermonkey-embedding-splicer.js'
  );
  const { spliceBindings } = splicer;
  splicer.spliceBindings = (...given) => {
    const spliced = spliceBindings(...given);
    return { ...spliced, jsBindings: finishBindings(spliced.jsBindings, transformSync) };
  };
  const { componentize } = await import('@bytecodealliance/componentize-js');
  const { opt } = await import('@bytecodealliance/jco');
  const { component: made } = await componentize({
    sourcePath: 'dist/bundle/component.js',
    witPath: engineWit(),
    worldName: 'session-component',
    disableFeatures: ['random', 'stdio', 'clocks', 'http', 'fetch-event'],
  });
  // Passes for size alone: the engine's functions were optimized by its own compiler.
  const passes = ['--remove-unused-module-elements', '--code-folding', '--memory-packing', '--strip-debug'];
  const { component } = await opt(made, { quiet: true, optArgs: ['--all-features', ...passes] });
  write('dist/session.wasm', component);
}

/** The one place where the bindings inside the component are changed. It fails loudly like `finishGlue`. */
function finishBindings(source, transform) {
  // A session that is passed in to be closed is forgotten under the number of its handle, where it is known under the
  // number of its representation: that would forget somebody else's session.
  const taken = /(repTable\.get\()(\$resource_\w+\$rep\$\w+\(handle\d+\))(\)\.rep;\s*repTable\.delete\()handle\d+\);/g;
  const found = source.match(taken)?.length ?? 0;
  if (found !== 2) throw new Error(`the bindings take ${found} sessions, not 2 (close, delete): see finishBindings`);
  const text = source.replace(taken, 'repTable.get(taken = $2$3taken);').replace(/^(?=let repTable)/m, 'let taken;\n');
  const logless = text.replace(/^( *)_debugLog\(/gm, '$1DEBUG: _debugLog(');
  const { code } = transform(logless, { dropLabels: ['DEBUG'], minify: true });
  if (code.match(/_debugLog/g)?.length !== 1) throw new Error('the bindings still log: see finishBindings');
  return code;
}

async function componentizeTransitions() {
  const { default: qjs } = await import('componentize-qjs');
  const { component } = await qjs.componentize({
    jsSource: readFileSync('dist/bundle/transitions-component.js', 'utf8'),
    witPath: 'wit',
    world: 'transitions-component',
    sync: true,
    stubWasi: true,
  });
  write('dist/transitions.wasm', component);
}

/** Makes `dist/AS/NAME.js` from `dist/NAME.wasm`, its declaration, and `modules.json`: where the core modules are. */
async function transpile(name, options, as = name) {
  const { componentWit, transpile: jco } = await import('@bytecodealliance/jco');
  const component = readFileSync(`dist/${name}.wasm`);
  const wit = await componentWit(component);
  const world = wit.slice(wit.indexOf('world root'), wit.indexOf('\n}', wit.indexOf('world root')));
  const imports = Array.from(world.matchAll(/^ {2}import ([^;]+);/gm), (match) => match[1]).sort();
  checkImports(name, imports);

  const { files } = await jco(component, { name, instantiation: 'sync', wasiShim: false, ...options });
  const modules = {};
  const written = {};
  for (const [path, content] of Object.entries(files)) {
    if (!path.endsWith('.wasm')) continue;
    // Nearly all of a component is its core modules, so they are read from it rather than stored twice.
    const at = component.indexOf(content);
    if (at < 0) written[path] = content;
    else modules[path] = [at, content.length];
  }
  written[`${name}.js`] = await finishGlue(as, new TextDecoder().decode(files[`${name}.js`]));
  written[`${name}.d.ts`] = declaration(name);
  written['modules.json'] = `${JSON.stringify({ imports, modules })}\n`;
  rmSync(`dist/${as}`, { recursive: true, force: true });
  writeFolder(`dist/${as}`, written);
}

function checkImports(name, imports) {
  const allowed = allowedImports[name];
  const wrong = [
    ...imports.filter((one) => !allowed.includes(one)).map((one) => `imports ${one}, which it must not`),
    ...allowed.filter((one) => !imports.includes(one)).map((one) => `does not import ${one}`),
  ];
  if (wrong.length > 0) throw new Error(`dist/${name}.wasm ${wrong.join('; ')}`);
}

const sessionGlue = ['session', 'session-async'];
const everyGlue = [...sessionGlue, 'transitions'];

/** What is changed in the transpiler's output: which components it concerns, what is there, and what takes its place. */
const glueChanges = [
  // Logging reads process.env at every step of every call. It goes, arguments and all.
  [everyGlue, /^ *const _debugLog = \(\.\.\.args\) => \{\n[^}]*\}\n[^}]*\};\n/gm, ''],
  // A resource of an instance that trapped cannot be finalized. What a registry callback throws ends the process.
  [
    everyGlue,
    /return new FinalizationRegistry\(unregister\);/g,
    `return new FinalizationRegistry((held) => {
      try { getOrCreateAsyncState(0).throwIfTrapped(); unregister(held); } catch (error) { finalizerFailed(error); }
    });`,
  ],
  // Without this -1n would arrive as 2^64 - 1, silently.
  [
    sessionGlue,
    /return BigInt\.as(Uint|Int)N\(64, converted\);/g,
    'return exactly(val, BigInt.as$1N(64, converted));',
    2,
  ],
  // The component never drops the handle of a session that is passed in, and cannot: dropping would enter it again.
  [
    sessionGlue,
    /(finalizationRegistry(\d+)\.unregister\(arg0\);[\s\S]{0,1500}?fn: \(\) => )(\w+\(handle0\))/g,
    '$1forgetting(rscTableRemove, handleTable$2, handle0, $3)',
    2,
  ],
  // The transpiler awaits in static functions, and does not say that they are asynchronous.
  [
    ['session-async'],
    /^( *Session\.(?:initialize|initializeIn|open|openIn|delete) = )function/gm,
    '$1async function',
    5,
  ],
  // Remembers every resource that was ever made, and is never asked.
  [sessionGlue, /^ *table\._createdReps\.add\(rep\);\n/gm, ''],
  // An error says what it is, rather than "[object Object]".
  [sessionGlue, /`\$\{String\(value\)\} \(see error\.payload\)`/g, 'described(value)'],
];

const glueAddition = `
let finalizerFailed = () => {};
export function onFinalizerFailed(listen) { finalizerFailed = listen; }
function exactly(given, fitted) {
  if (given !== fitted) throw new TypeError('expected a bigint of 64 bits, received ' + typeof given + ' ' + given);
  return fitted;
}
function forgetting(remove, table, handle, result) {
  remove(table, handle);
  return result;
}
function described(value) {
  if (Array.isArray(value)) return described(value.at(-1));
  if (typeof value !== 'object' || value === null) return String(value);
  const { tag, val } = value;
  return val === undefined || typeof val?.toDebugString === 'function' ? String(tag) : tag + ': ' + described(val);
}
`;

/** The one place where the transpiler's output is changed. It fails loudly when what it changes is no longer there. */
async function finishGlue(name, source) {
  const { transform } = await import('esbuild');
  let text = source;
  for (const [names, pattern, replacement, times = 1] of glueChanges) {
    if (!names.includes(name)) continue;
    const found = text.match(pattern)?.length ?? 0;
    if (found !== times) throw new Error(`the glue of ${name} holds ${pattern} ${found} times: see glueChanges`);
    text = text.replace(pattern, replacement);
  }
  text = text.replace(/^( *)_debugLog\(/gm, '$1DEBUG: _debugLog(') + glueAddition;
  const { code } = await transform(text, { minifySyntax: true, dropLabels: ['DEBUG'] });
  for (const gone of ['_debugLog', 'JCO_DEBUG', 'process.env']) {
    if (code.includes(gone)) throw new Error(`the glue of ${name} still holds ${gone}: see finishGlue`);
  }
  return code;
}

function declaration(name) {
  const exported = name === 'session' ? ['sessions', 'transitions'] : ['transitions'];
  return [
    ...exported.map((one) => `import type * as ${one} from '../types/host/interfaces/mcp-session-${one}.js';`),
    '/** What the component exports. */',
    'export interface Exports {',
    ...exported.map((one) => `  readonly ${one}: typeof ${one};`),
    '}',
    '/** Makes an instance. Imports go by their WIT names without version. */',
    'export function instantiate(',
    '  coreModule: (path: string) => object,',
    '  imports: Readonly<Record<string, object>>,',
    '): Exports;',
    '/** Hears of resources of a failed instance whose finalizer failed too. */',
    'export function onFinalizerFailed(listen: (error: unknown) => void): void;',
    '',
  ].join('\n');
}

/** `host/` as JavaScript, for the npm package: Node strips no types under node_modules. Types are checked elsewhere. */
async function host() {
  const { spawnSync } = await import('node:child_process');
  for (const folder of ['dist/host', 'dist/src', 'dist/test']) rmSync(folder, { recursive: true, force: true });
  const run = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.package.json'], {
    encoding: 'utf8',
  });
  if (!existsSync('dist/host')) throw new Error(`tsc wrote nothing: ${run.stdout}${run.stderr}`);
  if (run.status !== 0) say(run.stdout.trim());
}

// --- Files -----------------------------------------------------------------------------------------------------------

function write(path, content) {
  mkdirSync(dirname(path), { recursive: true });
  const partial = `${path}.${process.pid}.partial`;
  writeFileSync(partial, content);
  renameSync(partial, path);
}

function writeFolder(folder, files) {
  for (const [path, content] of Object.entries(files)) write(join(folder, path), content);
}

function listFiles(path) {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  const entries = readdirSync(path, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  return entries.flatMap((entry) =>
    entry.isDirectory() ? listFiles(join(path, entry.name)) : [join(path, entry.name)],
  );
}

// --- Stamps ----------------------------------------------------------------------------------------------------------

const stampOf = (step) => `dist/.stamps/${step.name.replaceAll(' ', '-')}`;
const readStamp = (step) => (existsSync(stampOf(step)) ? readFileSync(stampOf(step), 'utf8') : '');

/** A hash over everything that a step's outputs depend on, or '' if some input is not there yet. */
function inputsHash(step, lock, self) {
  const hash = createHash('sha256').update(self);
  for (const tool of step.tools) hash.update(JSON.stringify([tool, lock.packages[`node_modules/${tool}`]?.integrity]));
  if (step.after !== undefined) {
    const before = readStamp(steps.find((one) => one.name === step.after));
    if (before === '') return '';
    hash.update(before);
  }
  for (const input of step.inputs ?? []) {
    const files = listFiles(input);
    if (files.length === 0 && input !== 'test/bucket/contract.ts') return '';
    for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update('\0');
  }
  return hash.digest('hex');
}

/** Two builds of the same inputs may differ in bytes: what comes after belongs to the very outputs it was made from. */
function outputsHash(step) {
  const hash = createHash('sha256');
  for (const file of step.outputs.flatMap(listFiles)) hash.update(readFileSync(file));
  return hash.digest('hex');
}

const say = (line) => process.stderr.write(`${line}\n`);

/** Runs what is due. With `look`, only tells whether anything is. */
async function runSteps(look) {
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
  const self = readFileSync('build.mjs');
  for (const step of steps) {
    const hash = inputsHash(step, lock, self);
    const done = hash !== '' && readStamp(step).startsWith(hash) && step.outputs.every((path) => existsSync(path));
    if (done && !(flags.force && !look)) continue;
    if (look) return true;
    const started = performance.now();
    // Without a stamp an interrupted step is run again.
    rmSync(stampOf(step), { force: true });
    await step.run();
    write(stampOf(step), `${inputsHash(step, lock, self)} ${outputsHash(step)}`);
    if (!flags.quiet) say(`${step.name.padEnd(18)} ${((performance.now() - started) / 1000).toFixed(1)} s`);
  }
  return false;
}

/** Two builds never write at once. The second waits, and then finds nothing to do. */
async function lockDist() {
  mkdirSync('dist', { recursive: true });
  for (;;) {
    try {
      const file = openSync('dist/.lock', 'wx');
      writeFileSync(file, String(process.pid));
      closeSync(file);
      return;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (lockIsStale()) rmSync('dist/.lock', { force: true });
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Whether the build that locked is gone: it was killed. */
function lockIsStale() {
  try {
    const holder = Number(readFileSync('dist/.lock', 'utf8'));
    if (holder > 0) process.kill(holder, 0);
    // Its number is written right after the lock is made.
    return holder === 0 && Date.now() - statSync('dist/.lock').mtimeMs > 1000;
  } catch (error) {
    if (error.code === 'ESRCH') return true;
    if (error.code === 'ENOENT' || error.code === 'EPERM') return false;
    throw error;
  }
}

async function sizes() {
  const { gzipSync } = await import('node:zlib');
  for (const name of ['session', 'transitions']) {
    const bytes = readFileSync(`dist/${name}.wasm`);
    const mebi = (length) => `${(length / 2 ** 20).toFixed(2)} MiB`;
    say(
      `${`${name}.wasm`.padEnd(18)} ${bytes.length} bytes, ${mebi(bytes.length)}, gzip ${mebi(gzipSync(bytes).length)}`,
    );
  }
}

const started = performance.now();
if (!flags.force && !(await runSteps(true))) {
  if (!flags.quiet) say(`nothing to build (${((performance.now() - started) / 1000).toFixed(2)} s)`);
} else {
  if (flags.quiet) say('building, which takes some seconds');
  await lockDist();
  try {
    await runSteps(false);
    if (!flags.quiet) await sizes();
  } finally {
    rmSync('dist/.lock', { force: true });
  }
}
