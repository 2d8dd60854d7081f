// pg-boss with its recipe and a database: each time it listens it sends a job a moment later. Its workers poll once in
// a minute, so only the notification lets them take it at once.
const { listenThroughHub } = require('../../examples/drivers/pg_boss.js');
const { settings } = require('./words.js');

import(require.resolve('pg-boss')).then(async ({ PgBoss }) => {
  const boss = new PgBoss({ ...settings(process.env.DATABASE), useListenNotify: true, supervise: false, schedule: false });
  boss.on('error', () => console.log('lost'));
  listenThroughHub(boss, settings(process.argv[2]));
  const db = boss.getDb();
  const { listen } = db;
  db.listen = (channel, wake, again) =>
    listen(channel, wake, () => {
      again();
      setTimeout(async () => {
        await boss.send('jobs', {});
        console.log('ready');
      }, 1000);
    });
  await boss.start();
  await boss.createQueue('jobs', { notify: true });
  await boss.work('jobs', { pollingIntervalSeconds: 60, notifyPollingIntervalSeconds: 60 }, async () => console.log('got job'));
});
