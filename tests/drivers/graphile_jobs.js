// Graphile Worker with its recipe and a database: each time it listens it adds a job a moment later. It polls once in an
// hour, so only the notification lets it take the job at once.
const { Logger, run } = require('graphile-worker');
const { EventEmitter } = require('events');
const { HubPool } = require('../../examples/drivers/graphile_worker.js');
const { settings } = require('./words.js');

const pgPool = new HubPool(settings(process.env.DATABASE), settings(process.argv[2]));
pgPool.on('error', () => {});
const events = new EventEmitter();
let running;
events.on('pool:listen:success', () => {
  setTimeout(async () => {
    await (await running).addJob('jobs', {});
    console.log('ready');
  }, 1000);
});
const taskList = { jobs: () => console.log('got job') };
const logger = new Logger(() => () => {});
running = run({ pgPool, events, taskList, pollInterval: 3600e3, concurrency: 1, logger });
