'use strict';

const { codeOf } = require('./errors');

// struct pgwake_record of pgwake.h: ten 32-bit numbers and a 64-bit one, of which ids of ours need the lower half (of
// little-endian machines, which are all there are prebuilds for).
const HEADER = 48;
const SIZE = 0;
const KIND = 1;
const SOURCE = 2;
const GAP = 3;
const BY = 4;
const FLAGS = 5;
const RESULT = 6;
const CHANNEL = 7;
const PAYLOAD = 8;
const REASON = 9;
const ID = 10;

const HAS_PAYLOAD = 1;
const HEALTHY = 2;
const NOT_UTF8 = 4;

const kinds = [undefined, 'wake', 'state', 'refused', 'subscribed'];
const sources = ['none', 'hub', 'own'];
const gaps = [null, 'reconnect', 'hub_lost', 'overflow', 'forked'];

/** One event: a wake of a channel, or a change of who serves. index.d.ts says what its members are. */
class Event {
  constructor(kind, source, gap, processId, healthy, channel, payload, data, readAgain, reason) {
    this.kind = kind;
    this.source = source;
    this.gap = gap;
    this.processId = processId;
    this.healthy = healthy;
    this.channel = channel;
    this.payload = payload;
    this.data = data;
    this.readAgain = readAgain;
    this.reason = reason;
  }

  get code() {
    return this.kind === 'refused' ? codeOf(this.reason) : '';
  }
}

/** The gap that stands for payloads that were thrown away. */
function overflow(channel) {
  return new Event('wake', 'none', 'overflow', 0, false, channel, '', null, true, '');
}

function same(buffer, a, b, size) {
  for (let i = 0; i < size; ++i) if (buffer[a + i] !== buffer[b + i]) return false;
  return true;
}

/** The answer to a subscribe for one channel. */
class Answer {
  constructor(id, result, channel, reason) {
    this.kind = 'subscribed';
    this.id = id;
    this.result = result;
    this.channel = channel;
    this.reason = reason;
  }
}

/** What was read into `buffer`; `numbers` is an Int32Array over the same memory. */
function unpack(buffer, numbers, used) {
  const out = [];
  let channel = '';
  let channelAt = 0;
  let channelSize = 0;
  for (let at = 0; at < used; ) {
    const n = at >> 2;
    const kind = kinds[numbers[n + KIND]];
    const flags = numbers[n + FLAGS];
    const size = numbers[n + CHANNEL];
    const payloadAt = at + HEADER + size + 1;
    const reasonAt = payloadAt + numbers[n + PAYLOAD] + 1;
    // Events of one channel often stand together.
    if (size !== channelSize || !same(buffer, at + HEADER, channelAt, size)) {
      channelAt = at + HEADER;
      channelSize = size;
      channel = buffer.toString('utf8', channelAt, channelAt + size);
    }
    const hasReason = numbers[n + REASON] !== 0;
    const reason = hasReason ? buffer.toString('utf8', reasonAt, reasonAt + numbers[n + REASON]) : '';
    if (kind === 'subscribed') {
      out.push(new Answer(numbers[n + ID] >>> 0, numbers[n + RESULT], channel, reason));
    } else if (kind !== undefined) {
      const hasPayload = (flags & HAS_PAYLOAD) !== 0;
      const payload = hasPayload ? buffer.toString('utf8', payloadAt, reasonAt - 1) : '';
      const data = hasPayload && flags & NOT_UTF8 ? Buffer.from(buffer.subarray(payloadAt, reasonAt - 1)) : null;
      const gap = gaps[numbers[n + GAP]] ?? (numbers[n + GAP] ? 'reconnect' : null);
      out.push(
        new Event(
          kind,
          sources[numbers[n + SOURCE]],
          gap,
          numbers[n + BY],
          (flags & HEALTHY) !== 0,
          channel,
          payload,
          data,
          kind === 'wake' && !hasPayload,
          reason,
        ),
      );
    }
    at += numbers[n + SIZE];
  }
  return out;
}

module.exports = { overflow, unpack };
