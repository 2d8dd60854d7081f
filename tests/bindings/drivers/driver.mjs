// The driver of the Node.js face: the lines of tests/bindings/README.md, obeyed with the listener of the package that
// PGWAKE_NODE names.

import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const pgwake = await import(pathToFileURL(path.join(process.env.PGWAKE_NODE, 'lib', 'index.mjs')));

const ERRORS = { Refused: 'refused', TimeoutError: 'timeout', Closed: 'closed', Invalid: 'invalid', Forked: 'forked' };

function decoded(word) {
  return Buffer.from(word.replace(/%(..)/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), 'latin1').toString();
}

function encoded(bytes) {
  return Buffer.from(bytes)
    .toString('latin1')
    .replace(/[^ -~]|["\\%]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);
}

function shown(event) {
  const { kind, source, gap, processId, channel, payload, data, readAgain, reason, healthy } = event;
  return {
    kind,
    source,
    gap: gap ?? '',
    by: processId,
    channel: encoded(channel),
    payload: readAgain || kind !== 'wake' ? null : encoded(data ?? payload),
    reason: encoded(reason),
    healthy,
    utf8: data === null,
  };
}

function failure(error) {
  if (!(error instanceof pgwake.PgwakeError)) throw error;
  const said = { error: ERRORS[error.name] ?? error.name, text: encoded(error.message) };
  if (error instanceof pgwake.Refused) Object.assign(said, { code: error.code, channel: encoded(error.channel) });
  return said;
}

function snakeCase(name) {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Some turns of the event loop, in which it looks at what is readable. */
async function aLook() {
  for (let i = 0; i < 3; ++i) await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves after so many milliseconds, and for -1 never. */
function passed(milliseconds, stop) {
  if (milliseconds === 0) return aLook();
  return new Promise((resolve) => {
    if (milliseconds < 0) return;
    const timer = setTimeout(resolve, milliseconds);
    stop.push(() => clearTimeout(timer));
  });
}

const listeners = new Map();
const tasks = new Map();
// The event loop is who watches the descriptor: "readable" is an event that came, kept for who takes the next one.
const kept = new Map();

/** The next event, or null; one that comes while it gives up is not lost. */
async function next(listener, milliseconds) {
  if (kept.has(listener)) {
    const event = kept.get(listener);
    kept.delete(listener);
    return event;
  }
  if (listener.closed) throw new pgwake.Closed('the listener is closed');
  const iterator = listener[Symbol.asyncIterator]();
  const came = iterator.next();
  const stop = [];
  await Promise.race([came, passed(milliseconds, stop)]);
  stop.forEach((one) => one());
  await iterator.return();
  return (await came).value ?? null;
}

const requests = {
  async subscribe(listener, timeout, ...channels) {
    await listener.listen(channels, { timeout: Number(timeout) < 0 ? Infinity : Number(timeout) });
    return true;
  },

  async unsubscribe(listener, ...channels) {
    await listener.unlisten(channels);
    return true;
  },

  async next(listener, timeout) {
    const event = await next(listener, Number(timeout));
    return event && shown(event);
  },

  async read(listener, most) {
    const out = [];
    while (out.length < Number(most)) {
      const event = await next(listener, 0);
      if (event === null) break;
      out.push(shown(event));
    }
    return out;
  },

  async readable(listener, timeout) {
    const event = await next(listener, Number(timeout));
    if (event !== null) kept.set(listener, event);
    return event !== null;
  },

  async state(listener) {
    return Object.fromEntries(Object.entries(listener.state).map(([name, value]) => [snakeCase(name), value]));
  },

  async shutdown(listener) {
    await listener.close();
    return true;
  },

  async thread(listener) {
    tasks.set(
      listener,
      (async () => {
        for await (const event of listener) void event;
        return new pgwake.Closed('the iteration has ended');
      })(),
    );
    return true;
  },

  async join(listener) {
    throw await tasks.get(listener);
  },
};

async function open(words) {
  const options = Object.fromEntries(words.map((word) => /^([^=]*)=(.*)$/s.exec(word).slice(1)));
  if ('ignore_environment' in options) {
    options.ignoreEnvironment = options.ignore_environment === 'on';
    delete options.ignore_environment;
  }
  return pgwake.connect(options);
}

async function obey(verb, name, ...words) {
  if (verb === 'signals') {
    process.on('SIGUSR1', () => say({ signal: true }));
    return true;
  }
  if (verb === 'open') {
    listeners.set(name, await open(words));
    return true;
  }
  const listener = listeners.get(name);
  if (verb === 'close') {
    await listener.close();
    return true;
  }
  return requests[verb](listener, ...words);
}

function say(answer) {
  fs.writeSync(1, `${JSON.stringify(answer)}\n`);
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const words = JSON.parse(line).map(decoded);
  say(await obey(...words).then((is) => ({ is }), failure));
}
process.exit(0);
