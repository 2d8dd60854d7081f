'use strict';

const { spawn } = require('node:child_process');
const path = require('node:path');
const readline = require('node:readline');

// The package as the build has put it together; here there is no addon.
const folder = process.env.PGWAKE_NODE ?? path.join(__dirname, '..', '..', '..', 'build', 'test', 'dev', 'node', 'pgwake');
const pgwake = require(folder);

/** The rig of tests/bindings, in a process of its own: a PostgreSQL, and hubs that are told apart by number. */
class Rig {
  #process;
  #waiting = [];

  constructor() {
    const program = path.join(__dirname, '..', '..', '..', 'tests', 'bindings', 'serve-rig');
    this.#process = spawn('/usr/bin/python3', [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    readline.createInterface({ input: this.#process.stdout }).on('line', (line) => {
      const answer = JSON.parse(line);
      const { resolve, reject } = this.#waiting.shift();
      if (answer.error) reject(new Error(answer.error));
      else resolve(answer.is);
    });
    this.#process.on('exit', () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error('the rig has ended'));
    });
  }

  ask(what, more) {
    this.#process.stdin.write(`${JSON.stringify({ do: what, ...more })}\n`);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  async host({ encoding = 'UTF8', args = [] } = {}) {
    return new Host(this, await this.ask('host', { arguments: args, encoding }));
  }

  close() {
    this.#process.stdin.end();
    return new Promise((resolve) => this.#process.on('exit', resolve));
  }
}

/** A database and a hub on it. */
class Host {
  #rig;
  #number;

  constructor(rig, number) {
    this.#rig = rig;
    this.#number = number;
    for (const what of ['kill', 'stop', 'start', 'close']) this[what] = () => this.#ask(what);
  }

  #ask(what, more) {
    return this.#rig.ask(what, { host: this.#number, ...more });
  }

  async options(more) {
    return { ...(await this.#ask('options')), ...more };
  }

  notify(channel, payload) {
    return this.#ask('notify', { channel, payload });
  }

  sql(statement) {
    return this.#ask('sql', { statement });
  }

  census(like) {
    return this.#ask('census', { like });
  }
}

// Nobody to talk to: reminders come by the policy.
const NOWHERE = { socket: '/nonexistent/pgwake.sock', policy: 'poll', pollInterval: '20ms' };

async function eventually(what, patience = 60_000) {
  const until = performance.now() + patience;
  while (!(await what())) {
    if (performance.now() > until) return false;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return true;
}

/** What a handler has collected, to be waited for. */
function collect(emitter, name) {
  const seen = [];
  emitter.on(name, (event) => seen.push(event));
  return {
    seen,
    async count(count) {
      if (!(await eventually(() => seen.length >= count))) {
        throw new Error(`${seen.length} of ${count} events '${name}' came`);
      }
      return seen.slice(0, count);
    },
  };
}

/** Runs JavaScript in a process of its own, with `pgwake` and `NOWHERE`. */
function node(code, env = {}) {
  const begin = `const pgwake = require(${JSON.stringify(folder)}); const NOWHERE = ${JSON.stringify(NOWHERE)};`;
  const child = spawn(process.execPath, ['-e', `${begin}(async () => {${code}})()`], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (data) => (out += data));
  child.stderr.on('data', (data) => (err += data));
  const patience = setTimeout(() => child.kill('SIGKILL'), 180_000);
  return new Promise((resolve) =>
    child.on('close', (status, signal) => {
      clearTimeout(patience);
      resolve({ status: signal ?? status, out, err });
    }),
  );
}

module.exports = { NOWHERE, Rig, collect, eventually, folder, node, pgwake };
