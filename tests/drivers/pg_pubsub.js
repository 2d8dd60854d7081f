// @graphile/pg-pubsub, as PostGraphile loads it. It does not look at the end of its connection: it notices at its next
// keep-alive (`select 1`), which it sends every 25 s and here every 200 ms.
const every = global.setInterval;
global.setInterval = (f, ms, ...more) => every(f, ms === 25000 ? 200 : ms, ...more);
const { Pool } = require('pg');
const { default: plugin } = require('@graphile/pg-pubsub');
console.error = () => {};
const pool = new Pool({ ...require('./words.js').settings(process.argv[2]), max: 1 });
pool.on('error', () => {});
pool.on('connect', (client) => {
  // `ready` once the LISTEN of a new client has been answered.
  const { query } = client;
  client.query = async (...args) => {
    const result = await query.apply(client, args);
    if (/^LISTEN/.test(args[0])) console.log('ready');
    return result;
  };
});
const { pubsub } = plugin['postgraphile:options']({}, { pgPool: pool }).graphileBuildOptions;
pubsub.subscribe('drivers', (payload) => console.log('got', payload));
