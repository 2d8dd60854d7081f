// node-postgres: one client, made anew when it ends.
const { Client } = require('pg');
const words = Object.fromEntries(process.argv[2].split(' ').map((word) => word.split(/=(.*)/)));

async function listen() {
  const client = new Client({ host: words.host, port: words.port, user: words.user, database: words.dbname });
  const ended = new Promise((done) => client.on('end', done));
  client.on('error', () => {});
  client.on('notification', (n) => console.log('got', n.payload));
  try {
    await client.connect();
    await client.query('LISTEN drivers');
    console.log('ready');
    await ended;
  } catch (e) {
    await new Promise((done) => setTimeout(done, 50));
  }
  console.log('lost');
  setImmediate(listen);
}
listen();
