// pg-listen: it connects and listens again by itself for three seconds, then says `error` and gives up. Its check of the
// connection (SELECT pg_backend_pid()) is made every 100 ms here.
const createSubscriber = require('pg-listen').default;
const settings = require('./words.js').settings(process.argv[2]);

async function subscribe() {
  const subscriber = createSubscriber(settings, { parse: (text) => text, paranoidChecking: 100 });
  subscriber.notifications.on('drivers', (payload) => console.log('got', payload));
  subscriber.events.on('reconnect', () => console.log('lost'));
  subscriber.events.on('error', () => setTimeout(subscribe, 50));
  let first = true;
  subscriber.events.on('connected', () => {
    if (!first) console.log('ready');
  });
  await subscriber.connect();
  first = false;
  await subscriber.listenTo('drivers');
  console.log('ready');
}
subscribe();
