'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { pathToFileURL } = require('node:url');
const { AsyncLocalStorage } = require('node:async_hooks');
const { NOWHERE, Rig, collect, eventually, folder, node, pgwake } = require('./support');

let rig;
let host;
before(async () => {
  rig = new Rig();
  host = await rig.host({ args: ['--allow', `uid:${process.getuid()} ok*,c*,d*`] });
});
after(() => rig.close());

/** A listener on a host that is closed at the end of the test. */
async function listening(t, channels, { on = host, ...options } = {}) {
  const listener = await pgwake.connect(await on.options(options));
  t.after(() => listener.close());
  await listener.listen(channels);
  return listener;
}

/** The next wake of an iterator. */
async function wake(iterator) {
  for (;;) {
    const { value, done } = await iterator.next();
    assert(!done, 'the iteration has ended');
    if (value.kind === 'wake') return value;
  }
}

describe('notifications', () => {
  it('D6: payloads, and wakes without one', async (t) => {
    const listener = await listening(t, ['c1', 'c2']);
    const notifications = collect(listener, 'notification');
    const text = `café \u{1f418} ${'x'.repeat(7_000)}`;
    await host.notify('c1', text);
    await host.notify('c2');
    const [first, second] = await notifications.count(2);
    const [pid] = await host.sql('SELECT pg_backend_pid()');
    assert.deepEqual([first.channel, first.payload, first.processId], ['c1', text, Number(pid)]);
    assert.deepEqual([first.readAgain, first.gap, first.source, first.data], [false, null, 'hub', null]);
    assert.deepEqual([second.channel, second.payload, second.readAgain], ['c2', '', true]);
  });

  it('D2 D6: in one batch, too', async (t) => {
    const listener = await listening(t, ['c1', 'c2']);
    for (const [channel, payload] of [['c1', 'text'], ['c2'], ['c1', 'more']]) await host.notify(channel, payload);
    assert(await eventually(() => listener.state.wakes >= 3));
    const notifications = await collect(listener, 'notification').count(3);
    assert.deepEqual(
      notifications.map(({ channel, payload }) => [channel, payload]),
      [['c1', 'text'], ['c2', ''], ['c1', 'more']],
    );
  });

  it('D6: bytes that are not UTF-8', async (t) => {
    const odd = await rig.host({ encoding: 'SQL_ASCII' });
    const listener = await listening(t, 'c', { on: odd });
    const notifications = collect(listener, 'notification');
    await odd.sql("SELECT FROM pg_notify('c', convert_from('\\xe9', 'SQL_ASCII'))");
    const [event] = await notifications.count(1);
    assert.deepEqual(event.data, Buffer.from([0xe9]));
    assert.equal(event.payload, '\ufffd');
    await odd.close();
  });

  it('D1: many, in order', async (t) => {
    const listener = await listening(t, 'c1');
    const notifications = collect(listener, 'notification');
    await host.sql("SELECT FROM (SELECT pg_notify('c1', i || repeat('.', 100)) FROM generate_series(1, 5000) i) x");
    const seen = await notifications.count(5000);
    assert.deepEqual(
      seen.map(({ payload }) => Number.parseInt(payload, 10)),
      Array.from({ length: 5000 }, (_, i) => i + 1),
    );
  });

  it('wait until somebody takes them', async (t) => {
    const listener = await listening(t, 'c1');
    await host.notify('c1', '1');
    await host.notify('c1', '2');
    assert(await eventually(() => listener.state.wakes >= 2));
    const loop = [];
    for await (const event of listener) {
      if (event.kind === 'wake') loop.push(event.payload);
      if (loop.length === 1) break;
    }
    assert.deepEqual(loop, ['1']);
    const [event] = await collect(listener, 'notification').count(1);
    assert.equal(event.payload, '2');
  });

  it('one goes to one of the loops that wait', async (t) => {
    const listener = await listening(t, 'c1');
    const seen = [[], []];
    const loops = seen.map(async (mine) => {
      for await (const event of listener) if (event.kind === 'wake') mine.push(Number(event.payload));
    });
    for (let i = 0; i < 20; ++i) await host.notify('c1', String(i));
    assert(await eventually(() => seen.flat().length === 20));
    assert.deepEqual(seen.flat().sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => i));
    assert(seen.every((mine) => mine.length > 0));
    await listener.close();
    await Promise.all(loops);
  });

  it('S8: unlisten drops what waits', async (t) => {
    const listener = await listening(t, ['c1', 'c2']);
    await host.notify('c1', 'unwanted');
    await host.notify('c2', 'first');
    assert(await eventually(() => listener.state.wakes >= 2));
    await host.notify('c1', 'unwanted, too');
    await host.notify('c2', 'second');
    await listener.unlisten('c1');
    assert.deepEqual(listener.channels, ['c2']);
    const seen = await collect(listener, 'notification').count(2);
    assert.deepEqual(seen.map(({ payload }) => payload), ['first', 'second']);
  });

  it('C10: those that nobody takes wait within queueMaxBytes, and a gap says what was lost', async (t) => {
    const listener = await listening(t, ['c1', 'c2'], { queueMaxBytes: '64KiB' });
    for (let i = 0; i < 30; ++i) await host.notify('c1', `${i}${'.'.repeat(7000)}`);
    await host.notify('c2');
    assert(await eventually(() => listener.state.discarded >= 20));
    const gaps = collect(listener, 'gap');
    const notifications = collect(listener, 'notification');
    await gaps.count(1);
    assert.deepEqual([gaps.seen[0].channel, gaps.seen[0].gap], ['c1', 'overflow']);
    assert(await eventually(() => notifications.seen.some(({ channel }) => channel === 'c2')));
  });

  it('come in the context of connect()', async (t) => {
    const storage = new AsyncLocalStorage();
    const listener = await storage.run('mine', () => pgwake.connect(NOWHERE));
    t.after(() => listener.close());
    await listener.listen(['c', 'd']);
    const context = () => new Promise((resolve) => listener.once('notification', () => resolve(storage.getStore())));
    assert.equal(await context(), 'mine');
    // The other one, too, which was read with it and waited for somebody to take it.
    assert.equal(await context(), 'mine');
  });
});

describe('gaps and refusals', () => {
  it('C2: a gap when the hub is killed', async (t) => {
    const own = await rig.host();
    const listener = await listening(t, 'c', { on: own });
    const gaps = collect(listener, 'gap');
    const states = collect(listener, 'state');
    const notifications = collect(listener, 'notification');
    await own.kill();
    const [gap] = await gaps.count(1);
    assert.deepEqual([gap.channel, gap.gap, gap.readAgain, gap.source], ['c', 'hub_lost', true, 'own']);
    assert.equal(notifications.seen.length, 0);
    await own.notify('c', 'after');
    const [event] = await notifications.count(1);
    assert.deepEqual([event.payload, event.source], ['after', 'own']);
    assert(await eventually(() => states.seen.some(({ source, healthy }) => source === 'own' && healthy)));
    assert.equal(listener.state.source, 'own');
    await own.close();
  });

  it('C2: a notification stands for it where there is no handler of gaps', async (t) => {
    const own = await rig.host();
    const listener = await listening(t, ['c', 'd'], { on: own });
    const notifications = collect(listener, 'notification');
    await own.kill();
    const seen = await notifications.count(2);
    assert.deepEqual(seen.map(({ channel, readAgain }) => [channel, readAgain]).sort(), [['c', true], ['d', true]]);
    await own.close();
  });

  it('who serves is told while nobody takes notifications', async (t) => {
    const listener = await pgwake.connect(await host.options());
    t.after(() => listener.close());
    const states = collect(listener, 'state');
    assert(await eventually(() => states.seen.some(({ source, healthy }) => source === 'hub' && healthy)));
    assert.equal(listener.state.source, 'hub');
    assert.equal(listener.state.hubConnects, 1);
  });

  it('C1: refusals', async (t) => {
    const listener = await listening(t, []);
    const refused = await listener.listen(['c1', 'forbidden']).catch((error) => error);
    assert(refused instanceof pgwake.Refused && refused instanceof pgwake.PgwakeError && refused instanceof Error);
    assert.deepEqual([refused.name, refused.channel, refused.code], ['Refused', 'forbidden', 'forbidden']);
    assert.deepEqual(listener.channels, ['c1']);
    await assert.rejects(listener.listen('c'.repeat(64)), { name: 'Refused', code: 'invalid_channel' });
    await assert.rejects(listener.listen('c\0d'), pgwake.Invalid);
    await assert.rejects(listener.listen('\ud800'), pgwake.Invalid);
    await assert.rejects(listener.listen([1]), TypeError);
    await assert.rejects(listener.listen('c', { timeout: 'soon' }), pgwake.Invalid);
  });

  it('C1: a deadline that passes, and the loop runs meanwhile', async (t) => {
    const listener = await pgwake.connect({ socket: '/nonexistent/s', database: 'host=/nonexistent' });
    t.after(() => listener.close());
    let ticks = 0;
    const ticking = setInterval(() => ++ticks, 10);
    await assert.rejects(listener.listen('c', { timeout: 1000 }), { name: 'TimeoutError', message: /^c: / });
    clearInterval(ticking);
    assert(ticks >= 2, `${ticks} ticks`);
    assert.deepEqual(listener.channels, []);
  });
});

describe('a listener', () => {
  it('is given what makes no sense', async () => {
    for (const options of [{ polcy: 'poll' }, { policy: 'sometimes' }, { name: 'a\0b' }, { pollInterval: 'x' }]) {
      await assert.rejects(pgwake.connect(options), pgwake.Invalid);
    }
    await assert.rejects(pgwake.connect({ pollInterval: 'x' }), /^Invalid: poll_interval/);
  });

  it('cannot be had without the library, and says which package has it', async () => {
    const { status, err } = await node('pgwake.connect()', { LIBPGWAKE: '/nonexistent/libpgwake.so.1' });
    assert.equal(status, 1);
    assert.match(err, /LibraryMissing.*apt install libpgwake1/s);
    assert.match((await node('pgwake.connect()', { LIBPGWAKE: 'libm.so.6' })).err, /it has no pgwake_options_new/);
  });

  it('passes on what handlers throw, and goes on', async () => {
    const { status, out, err } = await node(`
      process.on('uncaughtException', (error) => console.log(error.message));
      const listener = await pgwake.connect({ ...NOWHERE, pollInterval: '50ms' });
      let left = 3;
      listener.on('notification', () => {
        if (--left === 0) listener.close();
        throw new Error('of the test');
      });
      await listener.listen(['c', 'd', 'e']);
    `);
    assert.deepEqual([status, out, err], [0, 'of the test\n'.repeat(3), '']);
    const uncaught = await node(`
      const listener = await pgwake.connect(NOWHERE);
      listener.on('notification', () => { throw new Error('of the test'); });
      await listener.listen('c');
    `);
    assert.equal(uncaught.status, 1);
    assert.match(uncaught.err, /Error: of the test/);
  });

  it('ends what waits when it is closed', async () => {
    const listener = await pgwake.connect({ socket: '/nonexistent/s', database: 'host=/nonexistent' });
    const listen = assert.rejects(listener.listen('c', { timeout: Infinity }), pgwake.Closed);
    const loop = (async () => {
      for await (const event of listener) assert.notEqual(event.kind, 'wake');
    })();
    const ended = new Promise((resolve) => listener.once('end', resolve));
    const closing = listener.close();
    assert.equal(listener.close(), closing);
    assert(listener.closed);
    await Promise.all([closing, listen, loop, ended]);
    await assert.rejects(listener.listen('c'), pgwake.Closed);
    await assert.rejects(listener.unlisten('c'), pgwake.Closed);
    assert.throws(() => listener.state, pgwake.Closed);
    for await (const event of listener) assert.fail(event.kind);
    assert.equal(listener.unref().ref(), listener);
  });

  it('is closed by `await using`', { skip: !Symbol.asyncDispose }, async () => {
    const listener = await pgwake.connect(NOWHERE);
    await listener[Symbol.asyncDispose]();
    assert(listener.closed);
  });

  it('leaves nothing behind', async () => {
    const use = async () => {
      const listener = await pgwake.connect(NOWHERE);
      await listener.listen('c');
      await wake(listener[Symbol.asyncIterator]());
      await listener.close();
    };
    const count = () => ['fd', 'task'].map((what) => fs.readdirSync(`/proc/self/${what}`).length);
    for (let i = 0; i < 5; ++i) await use();
    const first = count();
    for (let i = 0; i < 50; ++i) await use();
    // A thread that has ended may stand in /proc for a moment, before and after.
    assert(await eventually(() => count().every((now, i) => now <= first[i])), `${count()}, ${first} before`);
  });

  it('can be imported', async () => {
    const module = await import(pathToFileURL(path.join(folder, 'lib', 'index.mjs')));
    assert.deepEqual(Object.keys(module).sort(), ['default', ...Object.keys(pgwake)].sort());
    assert.equal(module.connect, pgwake.connect);
  });
});
