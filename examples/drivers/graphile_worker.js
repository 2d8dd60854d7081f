// Graphile Worker is woken through the hub; its queries go to the database as before.
//
//   const { run } = require("graphile-worker");
//   const pgPool = new HubPool(
//     { connectionString: "postgres://app@db.internal/shop" },
//     { host: "/run/pgwake/shop", port: 5432, database: "shop", user: "app" },
//   );
//   await run({ pgPool, taskDirectory: `${__dirname}/tasks` });
//
// Written from its sources: it takes the client that LISTENs by pool.connect(callback), and all others by a promise. pgwake's
// tests run HubPool with node-postgres as Graphile Worker would use it, not Graphile Worker itself. node-postgres knows no
// second host, so without a hub the client is the database's.
const { Client, Pool } = require("pg");

class HubPool extends Pool {
  constructor(database, hub) {
    super(database);
    this.hub = hub;
  }

  connect(callback) {
    if (!callback) return super.connect();
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
