// postgres.js: it connects and listens again by itself, and says so.
const postgres = require('postgres');
const words = Object.fromEntries(process.argv[2].split(' ').map((word) => word.split(/=(.*)/)));
const sql = postgres({ path: `${words.host}/.s.PGSQL.${words.port}`, user: words.user, database: words.dbname });
sql.listen('drivers', (payload) => console.log('got', payload), () => console.log('ready')).catch(console.error);
