'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { it } = require('node:test');
const { folder } = require('./support');
const { Backlog } = require(path.join(folder, 'lib', 'backlog.js'));

function wake(channel, payload = '', more = {}) {
  return { kind: 'wake', gap: null, processId: 1, channel, payload, readAgain: payload === '', ...more };
}

function taken(backlog) {
  const out = [];
  while (backlog.size > 0) {
    const { kind, channel, payload, gap, source, processId } = backlog.shift();
    out.push(kind === 'wake' ? `${channel} ${gap ?? (payload || `again by ${processId}`)}` : `${kind} ${channel ?? source}`);
  }
  return out;
}

it('wakes without payload merge while they wait', () => {
  const backlog = new Backlog();
  backlog.push(wake('a'));
  backlog.push(wake('b'));
  backlog.push(wake('a', '', { processId: 2 }));
  backlog.push(wake('a', 'text'));
  assert.deepEqual(taken(backlog), ['a again by 0', 'b again by 1', 'a text']);
  backlog.push(wake('a'));
  backlog.push(wake('a', '', { gap: 'reconnect' }));
  backlog.push(wake('a'));
  assert.deepEqual(taken(backlog), ['a again by 1', 'a reconnect', 'a again by 1']);
});

it('one state waits, the latest', () => {
  const backlog = new Backlog();
  backlog.push({ kind: 'state', source: 'hub' });
  backlog.push(wake('a', 'x'));
  backlog.push({ kind: 'state', source: 'own' });
  backlog.push({ kind: 'refused', channel: 'b', payload: '', readAgain: false });
  assert.deepEqual(taken(backlog), ['a x', 'state own', 'refused b']);
});

it('payloads beyond the limit are discarded, and a gap says so, once', () => {
  const backlog = new Backlog(10);
  for (const payload of ['1234', '5678', 'lost', 'lost']) backlog.push(wake('a', payload));
  assert.equal(backlog.size, 3);
  assert.equal(backlog.shift().payload, '1234');
  backlog.push(wake('a', '90ab'));
  assert.deepEqual(taken(backlog), ['a 5678', 'a overflow', 'a 90ab']);
});

it('what is forgotten is gone, and its room free', () => {
  const backlog = new Backlog(10);
  backlog.push(wake('a', '1234'));
  backlog.push(wake('b', '1234'));
  backlog.push(wake('a'));
  backlog.forget('a');
  backlog.push(wake('c', '1234'));
  backlog.push(wake('a'));
  assert.deepEqual(taken(backlog), ['b 1234', 'c 1234', 'a again by 1']);
});

it('a queue that is never empty does not grow', () => {
  const backlog = new Backlog();
  backlog.push(wake('a', '0'));
  for (let i = 1; i <= 100_000; ++i) {
    backlog.push(wake('a', String(i)));
    assert.equal(backlog.shift().payload, String(i - 1));
  }
  assert.equal(backlog.size, 1);
});
