'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { Rig, folder, node } = require('./support');

// A listener that gets something all the time.
const BUSY = `
  const listener = await pgwake.connect({ ...NOWHERE, pollInterval: '10ms' });
  listener.on('notification', () => {});
  await listener.listen(['c', 'd']);
`;

async function times(count, code, expected) {
  for (let i = 0; i < count; ++i) assert.deepEqual(await node(code), { out: '', err: '', ...expected });
}

describe('the end of a process with an open listener', () => {
  it('by process.exit()', () => times(4, `${BUSY} process.exit(3);`, { status: 3 }));

  it('by process.exit() in a handler', () =>
    times(2, `${BUSY} listener.once('notification', () => process.exit(3));`, { status: 3 }));

  it('because nothing is left to do', () => times(4, `${BUSY} listener.unref();`, { status: 0 }));

  it('while it is being closed', () => times(2, `${BUSY} listener.close(); process.exit(3);`, { status: 3 }));

  it('after it was closed, by itself', () => times(2, `${BUSY} listener.unref(); await listener.close();`, { status: 0 }));

  it('by a signal', () =>
    times(1, `${BUSY} setTimeout(() => process.kill(process.pid, 'SIGINT'), 1);`, { status: 'SIGINT' }));
});

it('an open listener keeps the process alive, one that is not referenced does not', async () => {
  const { out } = await node(`
    const listener = await pgwake.connect(NOWHERE);
    setTimeout(() => { console.log('alive'); listener.unref(); }, 200).unref();
    process.on('exit', () => console.log('over'));
  `);
  assert.equal(out, 'alive\nover\n');
  const { out: again } = await node(`
    const listener = await pgwake.connect(NOWHERE);
    listener.unref().ref();
    setTimeout(() => { console.log('alive'); listener.close(); }, 200).unref();
  `);
  assert.equal(again, 'alive\n');
  // Of what nobody takes nothing is read.
  const { out: untaken } = await node(`
    const listener = await pgwake.connect({ ...NOWHERE, pollInterval: '10ms' });
    await listener.listen('c');
    setTimeout(() => { console.log('alive'); listener.close(); }, 200).unref();
  `);
  assert.equal(untaken, 'alive\n');
});

describe('worker threads', () => {
  const begin = `
    const { Worker } = require('node:worker_threads');
    const code = (end) => \`
      const pgwake = require(${JSON.stringify(folder)});
      const { parentPort } = require('node:worker_threads');
      (async () => {
        const listener = await pgwake.connect({
          socket: '/nonexistent/s', policy: 'poll', pollInterval: '10ms',
        });
        listener.on('notification', () => {});
        await listener.listen('c');
        \${end}
      })()\`;
    const run = (end, then = () => {}) => new Promise((resolve, reject) => {
      const worker = new Worker(code(end), { eval: true });
      worker.on('message', () => then(worker));
      worker.on('error', reject);
      worker.on('exit', resolve);
    });
    const check = (is, wanted) => { if (is !== wanted) throw new Error(is + ' instead of ' + wanted); };
  `;
  const ends = {
    'that end by themselves': `check(await run('listener.unref()'), 0);`,
    'that call process.exit()': `check(await run('process.exit(5)'), 5);`,
    'that call process.exit() in a handler': `check(await run("listener.once('notification', () => process.exit(5))"), 5);`,
    'that are terminated': `check(await run("parentPort.postMessage('')", (worker) => worker.terminate()), 1);`,
    'that end while they close': `check(await run('listener.close(); process.exit(5)'), 5);`,
    'that close': `check(await run('await listener.close()'), 0);`,
  };
  for (const [name, end] of Object.entries(ends)) {
    it(name, async () => {
      // Alone in the process, where the addon goes with them, and beside a listener of the main thread.
      const alone = `${begin} for (let i = 0; i < 10; ++i) { ${end} }`;
      assert.deepEqual(await node(alone), { status: 0, out: '', err: '' });
      const beside = `${BUSY} ${begin} await Promise.all(Array.from({ length: 4 }, async () => { ${end} }));
        await new Promise((resolve) => listener.once('notification', resolve)); await listener.close();`;
      assert.deepEqual(await node(beside), { status: 0, out: '', err: '' });
    });
  }

  it('whose process exits', async () => {
    const code = `${begin} run('', () => {}); run("parentPort.postMessage('')", () => process.exit(3));`;
    for (let i = 0; i < 4; ++i) assert.deepEqual(await node(code), { status: 3, out: '', err: '' });
  });
});

describe('cluster', () => {
  let rig;
  let host;
  before(async () => {
    rig = new Rig();
    host = await rig.host();
  });
  after(() => rig.close());

  it('C8: each worker listens, beside the primary that did before', async (t) => {
    const code = `
      const cluster = require('node:cluster');
      const pgwake = require(${JSON.stringify(folder)});
      (async () => {
        const listener = await pgwake.connect(JSON.parse(process.env.OPTIONS));
        const one = new Promise((resolve) => listener.once('notification', (n) => resolve(n.payload)));
        await listener.listen('c');
        const tell = (text) => console.log(text);
        if (cluster.isWorker) process.send('listens');
        else {
          let count = 0;
          for (let i = 0; i < 2; ++i) cluster.fork().on('message', () => { if (++count === 2) tell('all listen'); });
        }
        tell((cluster.isWorker ? 'worker ' : 'primary ') + (await one));
        await listener.close();
        if (cluster.isWorker) cluster.worker.disconnect();
      })();`;
    const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'pgwake-cluster.'));
    t.after(() => fs.rmSync(scratch, { recursive: true }));
    const program = path.join(scratch, 'main.js');
    fs.writeFileSync(program, code);
    const env = { ...process.env, OPTIONS: JSON.stringify(await host.options()) };
    const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    const patience = setTimeout(() => child.kill('SIGKILL'), 180_000);
    let said = '';
    child.stdout.on('data', async (data) => {
      said += data;
      if (String(data).includes('all listen')) await host.notify('c', 'hello');
    });
    const status = await new Promise((resolve) => child.on('close', (code_, signal) => resolve(signal ?? code_)));
    clearTimeout(patience);
    assert.deepEqual(said.trim().split('\n').sort(), ['all listen', 'primary hello', 'worker hello', 'worker hello']);
    assert.equal(status, 0);
    assert.equal(await host.census('own-%'), 0);
  });
});
