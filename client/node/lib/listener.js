'use strict';

const { AsyncResource } = require('node:async_hooks');
const { EventEmitter } = require('node:events');
const { Backlog } = require('./backlog');
const { Closed, Invalid, errorOf } = require('./errors');
const { unpack } = require('./events');
const { native } = require('./native');

const ROOM = 64 * 1024;

// What is read is unpacked at once, so that one is enough for all listeners. The memory is its own, and so aligned.
let buffer;
let numbers;
const LONGEST = 0x7fffffff;

function snakeCase(name) {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function camelCase(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

function makeRoom(size) {
  const memory = new ArrayBuffer((size + 7) & ~7);
  buffer = Buffer.from(memory);
  numbers = new Int32Array(memory);
}

/** Options as the addon takes them: name, value, name, ... with a NUL between them. */
function writtenOptions(options) {
  const out = [];
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    const text = typeof value === 'boolean' ? (value ? 'on' : 'off') : String(value);
    if (name.includes('\0') || text.includes('\0')) throw new Invalid(`${snakeCase(name)}: holds a NUL`);
    out.push(snakeCase(name), text);
  }
  return out.join('\0');
}

function checkChannel(channel) {
  if (typeof channel !== 'string') throw new TypeError(`a channel is a string, not ${typeof channel}`);
  if (channel.includes('\0')) throw new Invalid(`${JSON.stringify(channel)}: a channel's name holds no NUL`);
  if (Buffer.from(channel).toString() !== channel) {
    throw new Invalid(`${JSON.stringify(channel)}: a channel's name holds no half of a surrogate pair`);
  }
}

function channelsOf(channels) {
  const list = typeof channels === 'string' ? [channels] : Array.from(channels);
  list.forEach(checkChannel);
  return list;
}

function milliseconds(timeout) {
  if (typeof timeout !== 'number' || Number.isNaN(timeout)) throw new Invalid('timeout: write milliseconds');
  return timeout === Infinity ? -1 : Math.min(LONGEST, Math.max(0, Math.round(timeout)));
}

/**
 * Receives PostgreSQL notifications through the host's hub (pgwaked), and through a LISTEN connection of its own while the
 * hub is away. index.d.ts says what each call does.
 *
 * What was read waits in the backlog until somebody takes it: the handlers, or a `for await`, which sets the pace then.
 * Nothing is read while nobody wants anything: it waits in the library, which merges, counts and bounds it.
 */
class Listener extends EventEmitter {
  #handle;
  #backlog = new Backlog();
  #channels = new Set();
  #nextId = 0;
  #pending = new Map();
  #iterators = new Set();
  #waiters = [];
  #watching = true;
  #delivering = false;
  #scheduled = false;
  #context = new AsyncResource('pgwake.Listener');  // of connect(), in which handlers are called
  #closing = null;
  #onClosed = null;

  constructor({ ignoreEnvironment = false, ...options } = {}) {
    super();
    if (buffer === undefined) makeRoom(ROOM);
    this.#handle = native('open', writtenOptions(options), Boolean(ignoreEnvironment), (closed) =>
      closed ? this.#onClosed() : this.#readable(),
    );
  }

  get channels() {
    return [...this.#channels];
  }

  get closed() {
    return this.#closing !== null;
  }

  get state() {
    this.#check();
    const said = Object.entries(JSON.parse(native('state', this.#handle)));
    return Object.fromEntries(said.map(([name, value]) => [camelCase(name), value]));
  }

  async listen(channels, { timeout = 10_000 } = {}) {
    this.#check();
    const names = channelsOf(channels);
    if (names.length === 0) return;
    const id = (this.#nextId = (this.#nextId + 1) >>> 0);
    native('subscribe', this.#handle, names.join('\0'), milliseconds(timeout), id);
    await new Promise((resolve, reject) => {
      this.#pending.set(id, { left: names.length, failed: null, resolve, reject });
      this.#watch();
    });
  }

  async unlisten(channels) {
    this.#check();
    for (const channel of channelsOf(channels)) {
      native('unsubscribe', this.#handle, channel);
      this.#channels.delete(channel);
      this.#backlog.forget(channel);
    }
  }

  ref() {
    if (!this.closed) native('ref', this.#handle, true);
    return this;
  }

  unref() {
    if (!this.closed) native('ref', this.#handle, false);
    return this;
  }

  close() {
    this.#closing ??= new Promise((resolve) => {
      this.#onClosed = () => {
        resolve();
        this.emit('end');
      };
      native('close', this.#handle);
      this.#backlog.clear();
      this.#channels.clear();
      for (const pending of this.#pending.values()) pending.reject(new Closed('the listener was closed'));
      this.#pending.clear();
      this.#iterators.forEach((iterator) => this.#end(iterator));
    });
    return this.#closing;
  }

  [Symbol.asyncIterator]() {
    const iterator = {
      next: () => this.#next(iterator),
      return: () => Promise.resolve(this.#end(iterator)),
      [Symbol.asyncIterator]: () => iterator,
    };
    if (!this.closed) this.#iterators.add(iterator);
    return iterator;
  }

  // What waited for a handler is delivered to the first one.
  on(name, handler) {
    super.on(name, handler);
    this.#handlersChanged();
    return this;
  }

  addListener(name, handler) {
    return this.on(name, handler);
  }

  prependListener(name, handler) {
    super.prependListener(name, handler);
    this.#handlersChanged();
    return this;
  }

  #check() {
    if (this.closed) throw new Closed('the listener is closed');
  }

  #handlersChanged() {
    if (this.closed) return;
    this.#deliverSoon();
    this.#watch();
  }

  get #taken() {
    return this.#iterators.size > 0 ? this.#waiters.length > 0 : this.listenerCount('notification') > 0;
  }

  get #told() {
    return this.listenerCount('state') > 0 || this.listenerCount('refused') > 0;
  }

  #watch() {
    if (this.#watching) return;
    this.#watching = true;
    native('watch', this.#handle, true);
  }

  // One batch, so that the loop comes round: the descriptor stays readable while there is more.
  #readable() {
    const anybody = this.#pending.size > 0 || this.#taken || (this.#iterators.size === 0 && this.#told);
    if (!anybody) {
      this.#watching = false;
      native('watch', this.#handle, false);
      return;
    }
    let used = native('read', this.#handle, buffer);
    if (used > buffer.length) {
      makeRoom(used);
      used = native('read', this.#handle, buffer);
    }
    if (used > 0) this.#sort(unpack(buffer, numbers, used));
    this.#deliver();
  }

  #sort(events) {
    const simple = this.#pending.size === 0 && this.#backlog.size === 0;
    if (simple && events.every((event) => event.kind === 'wake')) {
      this.#backlog.fill(events);
      return;
    }
    const taken = this.#iterators.size > 0 || this.listenerCount('notification') > 0;
    for (const event of events) {
      if (event.kind === 'refused') this.#channels.delete(event.channel);
      if (event.kind === 'subscribed') this.#answer(event);
      // While nobody takes wakes, who waits for other things does not wait behind them.
      else if (event.kind !== 'wake' && !taken && this.listenerCount(event.kind) > 0) {
        process.nextTick(() => this.emit(event.kind, event));
      } else this.#backlog.push(event);
    }
  }

  #answer({ id, result, channel, reason }) {
    if (result === 0) this.#channels.add(channel);
    const pending = this.#pending.get(id);
    if (pending === undefined) return;
    if (result !== 0) {
      pending.failed ??= errorOf(native('resultName', result), reason || 'no answer within the deadline', channel);
    }
    if (--pending.left > 0) return;
    this.#pending.delete(id);
    if (pending.failed) pending.reject(pending.failed);
    else pending.resolve();
  }

  #next(iterator) {
    if (!this.#iterators.has(iterator)) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => {
      this.#waiters.push({ iterator, resolve });
      this.#deliverSoon();
      this.#watch();
    });
  }

  #end(iterator) {
    const over = { value: undefined, done: true };
    this.#iterators.delete(iterator);
    for (const waiter of this.#waiters) if (waiter.iterator === iterator) waiter.resolve(over);
    this.#waiters = this.#waiters.filter((waiter) => waiter.iterator !== iterator);
    if (!this.closed) this.#handlersChanged();
    return over;
  }

  get #wanted() {
    return this.#backlog.size > 0 && this.#taken;
  }

  // What a handler throws there is an uncaught exception, and none of the caller's; nor is the context the caller's.
  #deliverSoon() {
    if (this.#scheduled || !this.#wanted) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#context.runInAsyncScope(() => this.#deliver());
    });
  }

  #deliver() {
    if (this.#delivering) return;
    this.#delivering = true;
    try {
      while (this.#wanted) this.#handOut(this.#backlog.shift());
    } finally {
      this.#delivering = false;
      // A handler has thrown: what stands behind comes all the same.
      this.#deliverSoon();
    }
  }

  #handOut(event) {
    this.#waiters.shift()?.resolve({ value: event, done: false });
    if (event.kind !== 'wake') this.emit(event.kind, event);
    // Nobody may miss a gap for want of a handler.
    else this.emit(event.gap !== null && this.listenerCount('gap') > 0 ? 'gap' : 'notification', event);
  }
}

// Node.js 18 has no such symbol.
if (Symbol.asyncDispose) {
  Object.defineProperty(Listener.prototype, Symbol.asyncDispose, {
    value() {
      return this.close();
    },
    writable: true,
    configurable: true,
  });
}

async function connect(options) {
  return new Listener(options);
}

module.exports = { Listener, connect };
