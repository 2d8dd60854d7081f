// pg-promise as its documents show it: a direct connection with onLost, connected anew from there.
const { settings } = require('./words.js');
const pgp = require('pg-promise')({ noWarnings: true });
const db = pgp(settings(process.argv[2]));

async function listen() {
  try {
    const connection = await db.connect({ direct: true, onLost: () => setTimeout(lost, 20) });
    connection.client.on('notification', (n) => console.log('got', n.payload));
    await connection.none('LISTEN $1~', 'drivers');
    console.log('ready');
  } catch (e) {
    setTimeout(listen, 50);
  }
}
function lost() {
  console.log('lost');
  listen();
}
listen();
