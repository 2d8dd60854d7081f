// The pool of Graphile Worker's recipe, used as that does: a client for LISTEN by a callback, and another when it has failed.
const { HubPool } = require('../../examples/drivers/graphile_worker.js');
const hub = require('./words.js').settings(process.argv[2]);
// Its database is nowhere: only the listening client may connect.
const pool = new HubPool({ ...hub, host: '/nonexistent' }, hub);

function listen(error, client, release) {
  if (error) return setTimeout(() => pool.connect(listen), 50);
  let over = false;
  const again = () => {
    if (over) return;
    over = true;
    console.log('lost');
    release();
    pool.connect(listen);
  };
  client.on('error', again);
  client.on('notification', (n) => console.log('got', n.payload));
  client.query('LISTEN "drivers"; LISTEN "worker:migrate";').then(() => console.log('ready'), again);
}
pool.connect(listen);
