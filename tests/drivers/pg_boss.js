// pg-boss's listener through its recipe: it asks every 200 ms whether it still listens, and connects again by itself.
const { listenThroughHub } = require('../../examples/drivers/pg_boss.js');
const hub = require('./words.js').settings(process.argv[2]);

// pg-boss is an ES module, for which Node does not look in NODE_PATH.
import(require.resolve('pg-boss')).then(async ({ PgBoss }) => {
  const boss = new PgBoss({ host: '/nonexistent', notifyHeartbeatIntervalMs: 200, useListenNotify: true });
  boss.on('error', () => console.log('lost'));
  listenThroughHub(boss, hub);
  const db = boss.getDb();
  await db.open();
  await db.listen('drivers', (payload) => console.log('got', payload), () => console.log('ready'));
});
