// node-postgres: one client, made anew when it ends.
const { Client } = require('pg');
const settings = require('./words.js').settings(process.argv[2]);

async function listen() {
  const client = new Client(settings);
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
