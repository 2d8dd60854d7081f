// pg-boss is woken through the hub; its queries go to the database as before.
//
//   const boss = new PgBoss({ connectionString: "postgres://app@db.internal/shop", useListenNotify: true });
//   listenThroughHub(boss, { host: "/run/pgwake/shop", port: 5432, database: "shop", user: "app" });
//   await boss.start();
//
// Run by pgwake's tests with pg-boss 12, the first version that listens (queues need `notify: true`). It keeps its own
// supervision: it asks every 10 s whether it listens, connects again after 1 s and more, and then fetches what came
// meanwhile. Without a hub at its start it listens at the database.
function listenThroughHub(boss, hub) {
  const db = boss.getDb();
  const listen = db.listen;
  const { connectionString, ...config } = db.config;
  const atHub = Object.create(db, { config: { value: { ...config, ssl: false, password: undefined, ...hub } } });
  db.listen = async (...listener) => {
    try {
      return await listen.apply(atHub, listener);
    } catch {
      return await listen.apply(db, listener);
    }
  };
}

module.exports = { listenThroughHub };
