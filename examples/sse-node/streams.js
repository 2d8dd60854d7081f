'use strict';

const { Listener } = require('pgwake');

const AT_ONCE = 100; // rows of one read
const PAUSE = 500; // milliseconds until a read that failed is tried again
const LINGER = 30_000; // milliseconds until a channel without browsers is unsubscribed
const MAX_UNSENT = 1 << 20;

function message(event, data, id) {
  const head = id === undefined ? '' : `id: ${id}\n`;
  return `${head}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** One browser. */
class Stream {
  constructor(response, position) {
    this.response = response;
    this.position = position; // its last row
    this.behind = true; // rows must be read for it
    this.steps = Date.now(); // when it took something
    this.said = Date.now();
  }

  get unsent() {
    return this.response.writableLength;
  }

  get takesRows() {
    return this.behind && this.position !== null && this.unsent <= MAX_UNSENT / 2;
  }

  begin(position) {
    this.position = position;
  }

  write(text) {
    if (this.response.writableEnded) return; // the server stops: the browser comes again, with its last row
    this.said = Date.now();
    if (this.unsent === 0) this.steps = Date.now();
    this.response.write(text, () => {
      this.steps = Date.now();
      this.moved?.();
    });
  }
}

/** A channel, and those who look at it. */
class Channel {
  constructor(name, rows) {
    this.name = name;
    this.rows = rows;
    this.streams = new Set();
    this.idleSince = Date.now();
    this.ready = null; // a promise: PostgreSQL listens
    this.reading = false;
  }

  fallBehind() {
    for (const stream of this.streams) stream.behind = true;
    this.read();
  }

  // One at a time, and each for all that are behind: from the position of the rearmost, and where that one has much to catch
  // up with, in turn from that of the foremost, who must not wait for it.
  async read() {
    if (this.reading) return;
    this.reading = true;
    for (let turn = 0; ; turn++) {
      const positions = [...this.streams].filter((stream) => stream.takesRows).map((stream) => stream.position);
      if (positions.length === 0) break;
      const after = positions.reduce((a, b) => (turn % 2 === 0 ? Math.min(a, b) : Math.max(a, b)));
      const streams = [...this.streams].filter((stream) => stream.takesRows && stream.position >= after);
      for (const stream of streams) stream.behind = false; // a wake that comes from now on is for another read
      try {
        this.#handOut(streams, await this.rows.after(this.name, after, AT_ONCE));
      } catch (error) {
        console.error(`the rows of ${this.name} cannot be read: ${error.message}`);
        for (const stream of streams) stream.behind = true;
        await new Promise((resolve) => setTimeout(resolve, PAUSE));
      }
    }
    this.reading = false;
  }

  #handOut(streams, rows) {
    const texts = rows.map(({ id, payload }) => [id, message('row', { channel: this.name, id, payload }, id)]);
    for (const stream of streams) {
      // The last row of a full read is not the last one there is.
      stream.behind ||= rows.length === AT_ONCE;
      for (const [id, text] of texts) {
        if (id <= stream.position) continue;
        if (stream.unsent > MAX_UNSENT / 2) {
          stream.behind = true;
          break;
        }
        stream.write(text);
        stream.position = id;
      }
    }
  }
}

/** The browsers of a process, over one listener. */
class Streams {
  #channels = new Map();
  #ended = false;

  constructor(rows, { heartbeat, writeTimeout, reconnect = 2, ...options }) {
    this.rows = rows;
    this.heartbeat = heartbeat * 1000;
    this.writeTimeout = writeTimeout * 1000;
    this.reconnect = reconnect;
    this.listener = new Listener(options);
    this.listener.on('notification', (event) => this.#handOut(event));
    this.listener.on('refused', ({ channel, reason }) => this.#refuse(channel, reason));
    this.timer = setInterval(() => this.#lookAfter(), Math.min(1000, this.heartbeat / 2));
  }

  /** Begins the response once nothing can be missed any more. `last`: the row that the browser has; null: none. */
  async enter(name, last, response) {
    if (this.#ended) throw new Error('the server stops');
    let channel = this.#channels.get(name);
    if (!channel) this.#channels.set(name, (channel = new Channel(name, this.rows)));
    const stream = new Stream(response, null);
    channel.streams.add(stream);
    response.on('close', () => this.#leave(channel, stream));
    response.on('error', () => response.destroy());
    // Who comes beside the first one waits for the same answer; one that failed is asked for again.
    channel.ready ??= this.listener.listen(name).catch((error) => {
      channel.ready = null;
      throw error;
    });
    try {
      await channel.ready;
      stream.begin(last ?? (await this.rows.newest(name)));
    } catch (error) {
      this.#leave(channel, stream);
      throw error;
    }
    if (response.destroyed || this.#ended) {
      this.#leave(channel, stream);
      throw new Error('the server stops');
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache', 'x-accel-buffering': 'no' });
    // Browsers that lost one server at the same moment come back one after another.
    stream.write(`retry: ${Math.round(this.reconnect * (500 + 1000 * Math.random()))}\n\n`);
    stream.write(message('start', { id: String(stream.position) }, stream.position));
    stream.moved = () => stream.takesRows && channel.read();
    channel.read();
  }

  close() {
    this.#ended = true;
    clearInterval(this.timer);
    for (const { streams } of this.#channels.values()) {
      for (const { response } of streams) {
        if (response.headersSent) response.end(message('shutdown', {}));
        else response.destroy();
      }
    }
    this.listener.close();
  }

  #leave(channel, stream) {
    if (!channel.streams.delete(stream)) return;
    if (channel.streams.size === 0) channel.idleSince = Date.now();
  }

  #handOut({ channel: name, payload, gap, readAgain }) {
    const channel = this.#channels.get(name);
    if (!channel) return;
    if (readAgain) channel.fallBehind();
    if (readAgain && !gap) return;
    const text = gap ? message('resync', { channel: name, cause: gap }) : message('wake', { channel: name, payload });
    for (const stream of channel.streams) {
      // Who has no response yet gets what is committed from now on.
      if (!stream.response.headersSent) continue;
      if (stream.unsent + text.length > MAX_UNSENT) this.#drop(stream, 'does not read');
      else stream.write(text);
    }
  }

  // The hub's rules have changed: browsers come again, and hear so.
  #refuse(name, reason) {
    console.error(`${name} is refused now: ${reason}`);
    const channel = this.#channels.get(name);
    this.#channels.delete(name);
    for (const { response } of channel?.streams ?? []) response.destroy();
  }

  #drop(stream, why) {
    console.error(`a browser ${why} and is dropped`);
    stream.response.destroy();
  }

  #lookAfter() {
    const now = Date.now();
    for (const channel of this.#channels.values()) {
      for (const stream of channel.streams) {
        if (!stream.response.headersSent) continue;
        if (stream.unsent > 0 && now - stream.steps > this.writeTimeout) {
          this.#drop(stream, `took nothing for ${this.writeTimeout / 1000} s`);
        } else if (stream.unsent === 0 && now - stream.said >= this.heartbeat) stream.write(':\n\n');
      }
      if (channel.streams.size === 0 && now - channel.idleSince >= LINGER) {
        this.#channels.delete(channel.name);
        this.listener.unlisten(channel.name).catch((error) => console.error(error.message));
      }
    }
  }
}

module.exports = { Streams };
