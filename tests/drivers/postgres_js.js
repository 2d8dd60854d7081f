// postgres.js: it connects and listens again by itself, and says so.
const postgres = require('postgres');
const { host, port, user, database } = require('./words.js').settings(process.argv[2]);
const sql = postgres({ path: `${host}/.s.PGSQL.${port}`, user, database });
sql.listen('drivers', (payload) => console.log('got', payload), () => console.log('ready')).catch(console.error);
