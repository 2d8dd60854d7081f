'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { after, before, it } = require('node:test');
const { Rig, collect, eventually, folder, pgwake } = require('./support');
const { statementsOf } = require(path.join(folder, 'lib', 'pool.js'));

let pg;
try {
  pg = require('pg');
} catch {
  // Debian's package node-pg, or npm's pg.
}
const skip = pg ? false : 'needs pg: scripts/install-packages nodejs npm';

let rig;
let host;
let options;
before(async () => {
  if (skip) return;
  rig = new Rig();
  host = await rig.host();
  options = await host.options();
});
after(() => rig?.close());

/** A pool of pg, and the one that listens through pgwake. */
function pools(t) {
  const [, folderOfServer, user, database] = /^host=(\S+) user=(\S+) dbname=(\S+)$/.exec(options.database);
  const plain = new pg.Pool({ host: folderOfServer, user, database, application_name: 'shop' });
  const pool = pgwake.pool(plain, options);
  t.after(() => (plain.ending ? undefined : pool.end()));
  return { plain, pool };
}

it('LISTEN and UNLISTEN are read as PostgreSQL does', () => {
  const names = (text) => statementsOf(text)?.map(({ listen, channel }) => `${listen ? '+' : '-'}${channel ?? '*'}`);
  const table = {
    'LISTEN Orders': ['+orders'],
    ' listen "Or""ders" ; ': ['+Or"ders'],
    'LISTEN"a"': ['+a'],
    'listen a;UNLISTEN b;unlisten *': ['+a', '-b', '-*'],
    'LISTEN größe$1': ['+größe$1'],
    'LISTEN \n a': ['+a'],
    'LISTEN *': undefined,
    'LISTEN a; SELECT 1': undefined,
    'SELECT 1; LISTEN a': undefined,
    'LISTENa': undefined,
    'LISTEN 1a': undefined,
    'LISTEN ""': undefined,
    'LISTEN a b': undefined,
    'SELECT 1': undefined,
    '': undefined,
  };
  for (const [text, wanted] of Object.entries(table)) assert.deepEqual(names(text), wanted, text);
});

it('a client listens without a connection of its own, and queries with one', { skip }, async (t) => {
  const { plain, pool } = pools(t);
  assert(pool instanceof pg.Pool);
  const client = await pool.connect();
  const notifications = collect(client, 'notification');
  const result = await client.query('LISTEN "Orders"');
  assert.deepEqual([result.command, result.rows], ['LISTEN', []]);
  await host.notify('Orders', 'one');
  const [event] = await notifications.count(1);
  assert.deepEqual([event.channel, event.payload], ['Orders', 'one']);
  assert.equal(plain.totalCount, 0);
  assert.equal(pool.totalCount, 0);
  assert.equal(await host.census('shop'), 0);

  // One connection until release: transactions work.
  await client.query('BEGIN');
  const [first, second] = await Promise.all([
    client.query('SELECT pg_backend_pid() AS pid'),
    client.query({ text: 'SELECT pg_backend_pid() AS pid, $1::int AS n', values: [7] }),
  ]);
  assert.equal(first.rows[0].pid, second.rows[0].pid);
  assert.equal(second.rows[0].n, 7);
  await client.query('COMMIT');
  assert.equal(plain.totalCount, 1);
  assert.equal(plain.idleCount, 0);
  client.release();
  assert.throws(() => client.release());
  assert(await eventually(() => plain.idleCount === 1 && pool.listener.channels.length === 0));
  await assert.rejects(client.query('SELECT 1'), pgwake.Closed);
  assert.equal((await pool.query('SELECT 1 AS one')).rows[0].one, 1);
  await assert.rejects(pool.query('LISTEN a'), pgwake.Invalid);
});

it('each client hears its own channels', { skip }, async (t) => {
  const { pool } = pools(t);
  const clients = await Promise.all([pool.connect(), pool.connect()]);
  const [one, two] = clients.map((client) => collect(client, 'notification'));
  await Promise.all([clients[0].query('LISTEN a; LISTEN b'), clients[1].query('LISTEN b')]);
  await host.notify('a', '1');
  await host.notify('b', '2');
  await one.count(2);
  await two.count(1);
  await clients[0].query('UNLISTEN b');
  await host.notify('b', '3');
  await host.notify('a', '4');
  await one.count(3);
  await two.count(2);
  assert.deepEqual(one.seen.map(({ payload }) => payload), ['1', '2', '4']);
  assert.deepEqual(two.seen.map(({ payload }) => payload), ['2', '3']);
  await clients[0].query('UNLISTEN *');
  assert.deepEqual(pool.listener.channels, ['b']);
  clients.forEach((client) => client.release());
});

it('callbacks work as promises do, and errors arrive', { skip }, async (t) => {
  const { pool } = pools(t);
  const client = await new Promise((resolve, reject) =>
    pool.connect((error, made, release) => {
      assert.equal(typeof release, 'function');
      if (error) reject(error);
      else resolve(made);
    }),
  );
  const called = (...query) => new Promise((resolve) => client.query(...query, (...said) => resolve(said)));
  assert.equal((await called('LISTEN c'))[1].command, 'LISTEN');
  assert.equal((await called('SELECT 1 AS one'))[1].rows[0].one, 1);
  assert.equal((await called('SELECT $1::int AS n', [2]))[1].rows[0].n, 2);
  assert.match((await called('SELECT wrong'))[0].message, /wrong/);
  assert.match((await called(`LISTEN "${'x'.repeat(64)}"`))[0].message, /invalid_channel/);
  await assert.rejects(client.query('SELECT wrong'), /wrong/);
  client.release();
});

it('what follows a LISTEN waits for it', { skip }, async (t) => {
  const { pool } = pools(t);
  const client = await pool.connect();
  const notifications = collect(client, 'notification');
  client.query('LISTEN c');
  await client.query("SELECT pg_notify('c', 'own')");
  const [event] = await notifications.count(1);
  assert.equal(event.payload, 'own');
  client.release();
});

it('the end of the pool ends the listener', { skip }, async (t) => {
  const { plain, pool } = pools(t);
  const client = await pool.connect();
  await client.query('LISTEN c');
  const { listener } = pool;
  client.release();
  await pool.end();
  assert(listener.closed && plain.ended);
  await assert.rejects(pool.connect(), pgwake.Closed);
});

it('a gap is told to those that listen', { skip }, async (t) => {
  const { pool } = pools(t);
  const client = await pool.connect();
  const gaps = collect(client, 'gap');
  await client.query('LISTEN c');
  await host.kill();
  const [gap] = await gaps.count(1);
  assert.deepEqual([gap.channel, gap.gap], ['c', 'hub_lost']);
  client.release();
  await host.start();
});
