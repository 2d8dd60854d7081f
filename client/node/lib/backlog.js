'use strict';

const { overflow } = require('./events');

const MAX_BYTES = 64 * 1024 * 1024;

// As the library counts it, near enough: strings are not measured in UTF-8 for that.
function bytesOf(event) {
  return event.kind === 'wake' && !event.readAgain ? event.payload.length + event.channel.length : 0;
}

/**
 * Events that were read and not taken yet, by the library's own rules: wakes without payload that wait merge; one state
 * waits, the latest; payloads beyond the limit are discarded, and a gap says so.
 */
class Backlog {
  #max;
  #events = [];
  #head = 0;
  #bytes = 0;
  #durable = new Map();
  #overflowed = new Set();
  #state = null;

  constructor(max = MAX_BYTES) {
    this.#max = max;
  }

  get size() {
    return this.#events.length - this.#head;
  }

  /** One batch into an empty queue: nothing can merge that the library has not merged. */
  fill(events) {
    this.#events = events;
    this.#head = 0;
  }

  push(event) {
    if (event.kind === 'state') {
      if (this.#state !== null) this.#keep((other) => other !== this.#state);
      this.#state = event;
    } else if (event.kind === 'wake') {
      if (event.gap !== null) this.#durable.delete(event.channel);
      else if (event.readAgain ? this.#merged(event) : !this.#hasRoom(event)) return;
    }
    this.#events.push(event);
  }

  shift() {
    const event = this.#events[this.#head];
    this.#events[this.#head++] = undefined;
    if (this.#head === this.#events.length) this.clear();
    else if (event.kind === 'state') this.#state = null;
    else if (!event.readAgain) this.#bytes = Math.max(0, this.#bytes - bytesOf(event));
    else if (event.gap === 'overflow') this.#overflowed.delete(event.channel);
    else if (this.#durable.get(event.channel) === event) this.#durable.delete(event.channel);
    // Where it is never empty, what was taken must not pile up.
    if (this.#head > 4096 && this.#head * 2 > this.#events.length) this.#keep(() => true);
    return event;
  }

  /** Drops the wakes of a channel. */
  forget(channel) {
    this.#keep((event) => event.kind !== 'wake' || event.channel !== channel);
    this.#durable.delete(channel);
    this.#overflowed.delete(channel);
    this.#bytes = this.#events.reduce((sum, event) => sum + bytesOf(event), 0);
  }

  clear() {
    this.#events = [];
    this.#head = 0;
    this.#bytes = 0;
    this.#durable.clear();
    this.#overflowed.clear();
    this.#state = null;
  }

  #keep(wanted) {
    this.#events = this.#events.slice(this.#head).filter(wanted);
    this.#head = 0;
  }

  #hasRoom(event) {
    if (this.#bytes + bytesOf(event) <= this.#max) {
      this.#bytes += bytesOf(event);
      return true;
    }
    if (!this.#overflowed.has(event.channel)) {
      this.#overflowed.add(event.channel);
      this.#durable.delete(event.channel);
      this.#events.push(overflow(event.channel));
    }
    return false;
  }

  #merged(event) {
    const waiting = this.#durable.get(event.channel);
    if (waiting !== undefined) {
      if (waiting.processId !== event.processId) waiting.processId = 0;
      return true;
    }
    this.#durable.set(event.channel, event);
    return false;
  }
}

module.exports = { Backlog };
