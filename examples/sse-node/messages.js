'use strict';

const pg = require('pg');

const channelOf = (stream) => `pgmq.q_${stream}.INSERT`;
const streamOf = (channel) => channel.slice('pgmq.q_'.length, -'.INSERT'.length);

/** The table of ../sse/schema.sql, over one connection of a process to read and one to write, so that readers never wait for
 *  those who write. They may go through a pooler. */
class Messages {
  constructor(connectionString) {
    const pool = (name) => {
      const where = connectionOf(connectionString);
      const made = new pg.Pool({ ...where, application_name: name, max: 1, connectionTimeoutMillis: 5000 });
      made.on('error', () => {}); // an idle connection was lost: there is another one at the next query
      return made;
    };
    this.reading = pool('sse-node reading');
    this.writing = pool('sse-node writing');
  }

  /** The number of a channel's newest row; 0: there is none. */
  async newest(channel) {
    const newest = 'SELECT coalesce(max(newest), 0) AS newest FROM streams WHERE name = $1';
    return Number((await this.reading.query(newest, [streamOf(channel)])).rows[0].newest);
  }

  /** The rows behind that one, in order. */
  async after(channel, id, limit) {
    const after = 'SELECT id, payload FROM messages WHERE stream = $1 AND id > $2 ORDER BY id LIMIT $3';
    const { rows } = await this.reading.query(after, [streamOf(channel), id, limit]);
    return rows.map((row) => ({ id: Number(row.id), payload: row.payload }));
  }

  /** A row: whoever is away gets it later. */
  async add(stream, text) {
    await this.writing.query('INSERT INTO messages (stream, payload) VALUES ($1, $2)', [stream, text]);
  }

  /** For those who are there now. */
  async notify(stream, text) {
    await this.writing.query('SELECT pg_notify($1, $2)', [channelOf(stream), text]);
  }

  async close() {
    await Promise.all([this.reading.end(), this.writing.end()]);
  }
}

/** node-postgres reads URIs alone; this reads "host=... dbname=..." as well. */
function connectionOf(text) {
  if (text.includes('://')) return { connectionString: text };
  const words = Object.fromEntries(text.trim().split(/\s+/).map((word) => word.split('=')));
  const { dbname, port, ...others } = words;
  return { ...others, database: dbname, port: port && Number(port) };
}

module.exports = { Messages, channelOf };
