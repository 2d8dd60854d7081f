// A connection string of plain words as an object of settings for Node's drivers.
exports.settings = (conninfo) => {
  const words = Object.fromEntries(conninfo.split(' ').map((word) => word.replace(/'/g, '').split(/=(.*)/)));
  return { host: words.host, port: Number(words.port), user: words.user, database: words.dbname };
};
