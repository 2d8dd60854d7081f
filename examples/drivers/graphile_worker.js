// Graphile Worker is woken through the hub; its queries go to the database as before.
//
//   const { run } = require("graphile-worker");
//   const pgPool = new HubPool(
//     { connectionString: "postgres://app@db.internal/shop" },
//     { host: "/run/pgwake/shop", port: 5432, database: "shop", user: "app" },
//   );
//   await run({ pgPool, taskDirectory: `${__dirname}/tasks` });
//
// Run by pgwake's tests with Graphile Worker 0.16: it takes the client that LISTENs by pool.connect(callback), and all others
// by a promise or by pool.query(), which itself calls connect(callback). node-postgres knows no second host, so without a
// hub the client is the database's.
const { Client, Pool } = require("pg");

class HubPool extends Pool {
  constructor(database, hub) {
    super(database);
    this.hub = hub;
  }

  query(...query) {
    this.queries = true;
    try {
      return super.query(...query);
    } finally {
      this.queries = false;
    }
  }

  connect(callback) {
    if (!callback || this.queries) return super.connect(callback);
    const client = new Client(this.hub);
    const release = () => client.end().catch(() => {});
    client.on("error", () => {}); // after release nobody else listens to it
    client.connect((error) => {
      if (!error) return callback(undefined, client, release);
      release();
      super.connect(callback);
    });
  }
}

module.exports = { HubPool };
