'use strict';

const { EventEmitter } = require('node:events');
const { Closed, Invalid } = require('./errors');
const { Listener } = require('./listener');

// LISTEN or UNLISTEN with one name, as PostgreSQL reads it.
const STATEMENT =
  /\s*(LISTEN|UNLISTEN)\s*(?:"((?:[^"]|"")+)"|(?<=\s)([a-z_\u0080-\uffff][\w$\u0080-\uffff]*)|(\*))\s*(?:;|$)/iy;

// What a checked out client of pg emits.
const FORWARDED = ['notification', 'notice', 'error', 'end', 'drain'];

/** Of a text that holds LISTEN and UNLISTEN alone: what to do; else null. */
function statementsOf(text) {
  const out = [];
  STATEMENT.lastIndex = 0;
  while (STATEMENT.lastIndex < text.length) {
    const found = STATEMENT.exec(text);
    if (found === null) break;
    const [, word, quoted, plain, star] = found;
    const channel = quoted?.replaceAll('""', '"') ?? plain?.replace(/[A-Z]/g, (c) => c.toLowerCase());
    if (star && word.toUpperCase() === 'LISTEN') return null;
    out.push({ listen: word.toUpperCase() === 'LISTEN', channel });
    if (/^\s*$/.test(text.slice(STATEMENT.lastIndex))) return out;
  }
  return null;
}

function textOf(query) {
  const text = typeof query === 'string' ? query : query?.text;
  return typeof text === 'string' ? text : '';
}

/** Answers by the callback if there is one, as pg does. */
function answer(promise, callback) {
  if (callback === undefined) return promise;
  promise.then(
    (value) => process.nextTick(callback, undefined, value),
    (error) => process.nextTick(callback, error),
  );
  return undefined;
}

/** One listener for all clients of a pool: who listens to what. */
class Switchboard {
  #options;
  #listener = null;
  #clients = new Map(); // channel: those that listen
  #turn = Promise.resolve(); // LISTEN and UNLISTEN of one channel must not overtake each other

  constructor(options) {
    this.#options = options;
  }

  get listener() {
    if (this.#listener === null) {
      this.#listener = new Listener(this.#options);
      this.#listener.on('notification', (event) => this.#hand('notification', event));
      this.#listener.on('gap', (event) => this.#hand('gap', event));
      this.#listener.on('refused', (event) => this.#hand('refused', event));
      this.#listener.unref();
    }
    return this.#listener;
  }

  listen(client, channel) {
    return this.#inTurn(async () => {
      await this.listener.listen(channel);
      if (!this.#clients.has(channel)) this.#clients.set(channel, new Set());
      this.#clients.get(channel).add(client);
      this.#hold();
    });
  }

  unlisten(client, channel) {
    return this.#inTurn(async () => {
      const channels = channel === undefined ? [...this.#clients.keys()] : [channel];
      for (const one of channels) await this.#leave(client, one);
      this.#hold();
    });
  }

  async close() {
    this.#clients.clear();
    await this.#listener?.close();
  }

  #inTurn(work) {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  async #leave(client, channel) {
    const clients = this.#clients.get(channel);
    if (!clients?.delete(client) || clients.size > 0) return;
    this.#clients.delete(channel);
    if (!this.listener.closed) await this.listener.unlisten(channel);
  }

  // As a connection of pg does, a client that listens keeps the process alive.
  #hold() {
    if (this.#clients.size > 0) this.listener.ref();
    else this.#listener?.unref();
  }

  #hand(name, event) {
    const clients = [...(this.#clients.get(event.channel) ?? [])];
    if (name === 'refused') this.#clients.delete(event.channel);
    for (const client of clients) client.emit(name, event);
  }
}

/**
 * What pool.connect() answers: LISTEN and UNLISTEN go to the listener, and a connection of the pool is taken for the first
 * other query, until release().
 */
class PooledClient extends EventEmitter {
  #pool;
  #switchboard;
  #real = null; // a promise of pg's client
  #forwarding = [];
  #last = Promise.resolve();
  #released = false;

  constructor(pgPool, switchboard) {
    super();
    this.#pool = pgPool;
    this.#switchboard = switchboard;
  }

  query(query, values, callback) {
    const done = [values, callback].find((one) => typeof one === 'function');
    // It answers by itself (a cursor, a stream).
    if (typeof query?.submit === 'function') {
      this.#inTurn(async () => (await this.#checkOut()).query(query, values, callback)).catch((error) =>
        query.handleError?.(error),
      );
      return query;
    }
    const { callback: own, ...plain } = typeof query === 'object' && query !== null ? query : {};
    const asked = own ? plain : query;
    return answer(
      this.#inTurn(() => this.#run(asked, Array.isArray(values) ? values : undefined)).then((running) => running.result),
      done ?? own,
    );
  }

  release(destroy) {
    if (this.#released) throw new Error('Release called on client which has already been released to the pool.');
    this.#released = true;
    this.#switchboard.unlisten(this).catch(() => {});
    this.#real?.then(
      (real) => {
        for (const [name, handler] of this.#forwarding) real.removeListener(name, handler);
        real.release(destroy);
      },
      () => {},
    );
  }

  escapeIdentifier(text) {
    return `"${text.replaceAll('"', '""')}"`;
  }

  escapeLiteral(text) {
    const quoted = `'${text.replaceAll("'", "''").replaceAll('\\', '\\\\')}'`;
    return text.includes('\\') ? ` E${quoted}` : quoted;
  }

  // Starts in the order of the calls; pg's own client keeps the order among its queries.
  #inTurn(work) {
    const started = this.#last.then(work);
    this.#last = started.catch(() => {});
    return started;
  }

  async #run(query, values) {
    if (this.#released) throw new Closed('the client was released');
    const statements = statementsOf(textOf(query));
    if (statements === null) {
      const real = await this.#checkOut();
      return { result: real.query(query, values) };
    }
    for (const { listen, channel } of statements) {
      if (listen) await this.#switchboard.listen(this, channel);
      else await this.#switchboard.unlisten(this, channel);
    }
    const command = statements.at(-1).listen ? 'LISTEN' : 'UNLISTEN';
    return { result: { command, rowCount: null, oid: null, rows: [], fields: [] } };
  }

  #checkOut() {
    this.#real ??= this.#pool.connect().then((real) => {
      for (const name of FORWARDED) {
        const handler = (...args) => this.emit(name, ...args);
        this.#forwarding.push([name, handler]);
        real.on(name, handler);
      }
      return real;
    });
    return this.#real;
  }
}

/** A pool that looks like `pgPool`, whose clients listen through pgwake. index.d.ts says more. */
function pool(pgPool, options = {}) {
  const switchboard = new Switchboard(options);
  let ended = false;
  const own = {
    connect(callback) {
      if (ended) return answer(Promise.reject(new Closed('the pool has ended')), callback);
      const client = new PooledClient(pgPool, switchboard);
      if (callback === undefined) return Promise.resolve(client);
      process.nextTick(callback, undefined, client, (destroy) => client.release(destroy));
      return undefined;
    },
    query(query, values, callback) {
      if (statementsOf(textOf(query)) === null) return pgPool.query(query, values, callback);
      const error = new Invalid('LISTEN and UNLISTEN are for a client of connect(), which gets the notifications');
      return answer(Promise.reject(error), [values, callback].find((one) => typeof one === 'function'));
    },
    end(callback) {
      ended = true;
      return answer(
        switchboard.close().then(() => pgPool.end()),
        callback,
      );
    },
    get listener() {
      return switchboard.listener;
    },
  };
  const proxy = new Proxy(pgPool, {
    get(target, name) {
      if (Object.hasOwn(own, name)) return own[name];
      const value = Reflect.get(target, name, target);
      // Methods work on the pool itself, which has private state; `on` and its like answer this one.
      if (typeof value !== 'function' || Object.hasOwn(target, name)) return value;
      return (...args) => {
        const result = value.apply(target, args);
        return result === target ? proxy : result;
      };
    },
  });
  return proxy;
}

module.exports = { pool, statementsOf };
