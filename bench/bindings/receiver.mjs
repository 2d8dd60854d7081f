// The Node.js receivers of bench/bindings/measure: receiver.mjs KIND SOCKET CONNINFO CHANNEL, or receiver.mjs once WHAT.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import readline from 'node:readline';

const require = createRequire(import.meta.url);
const NOBODY = { socket: '/nonexistent/s', policy: 'poll', pollInterval: '10ms' };
const [kind, ...rest] = process.argv.slice(2);

function say(what) {
  fs.writeSync(1, `${JSON.stringify(what)}\n`);
}

const now = () => process.hrtime.bigint();

function processor() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function resident() {
  const pages = Number(fs.readFileSync('/proc/self/statm', 'utf8').split(' ')[1]);
  return { pages, descriptors: fs.readdirSync('/proc/self/fd').length };
}

/** What a handler sees, until there are enough. */
let counting = null;

function count(left, timed) {
  const used = processor();
  const seen = [];
  let from = 0n;
  return new Promise((resolve) => {
    counting = (payload) => {
      if (timed) seen.push(Number(now() - BigInt(payload)));
      else if (from === 0n) from = now();
      if (--left > 0) return;
      counting = null;
      if (timed) resolve({ us: seen.sort((a, b) => a - b)[seen.length >> 1] / 1e3 });
      else resolve({ seconds: Number(now() - from) / 1e9, us: processor() - used });
    };
  });
}

const kinds = {
  async pgwake([socket, database, channel]) {
    const { connect } = require(process.env.PGWAKE_NODE);
    const listener = await connect({ socket, database });
    listener.on('notification', ({ payload }) => counting?.(payload));
    await listener.listen(channel, { timeout: 60_000 });
    return {
      idle: (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
      async opens(times) {
        for (let i = 0; i < times; ++i) {
          const other = await connect({ socket, database });
          await other.listen(channel, { timeout: 60_000 });
          await other.close();
        }
      },
    };
  },

  async pg([, conninfo, channel]) {
    const { host, user, dbname: database } = Object.fromEntries(conninfo.split(' ').map((word) => word.split('=')));
    const client = new (require('pg').Client)({ host, user, database });
    await client.connect();
    client.on('notification', ({ payload }) => counting?.(payload));
    await client.query(`LISTEN ${channel}`);
    return {};
  },
};

async function serve() {
  const receiver = await kinds[kind](rest);
  say('listens');
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [what, number] = line.split(' ');
    if (what === 'latency' || what === 'burst') {
      const counted = count(Number(number), what === 'latency');
      say('ready');
      say(await counted);
    } else if (what === 'resident') {
      say('ready');
      say(resident());
    } else {
      say('ready');
      const used = processor();
      await receiver[what](Number(number)); // idle, opens
      say({ us: processor() - used });
    }
  }
  process.exit(0);
}

async function once(what) {
  const begun = performance.now();
  const { connect } = require(process.env.PGWAKE_NODE);
  if (what === 'import') {
    say({ ms: performance.now() - begun });
    return;
  }
  if (what === 'exit') {
    const listener = await connect(NOBODY);
    listener.once('notification', () => process.exit(0));
    await listener.listen('c');
    return;
  }
  const listener = await connect({ socket: '/nonexistent/s', database: 'host=/nonexistent' });
  process.once('SIGINT', () => {
    say({ ns: Number(now()) });
    process.exit(0);
  });
  if (what === 'subscribe') listener.listen('c', { timeout: Infinity }).catch(() => {});
  say('waits');
}

if (kind === 'once') await once(rest[0]);
else await serve();
