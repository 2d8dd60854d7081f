'use strict';

const { PgwakeError, LibraryMissing, Refused, TimeoutError, Closed, Invalid, Forked } = require('./errors');
const { Listener, connect } = require('./listener');
const { pool } = require('./pool');

module.exports = {
  connect,
  pool,
  Listener,
  PgwakeError,
  LibraryMissing,
  Refused,
  TimeoutError,
  Closed,
  Invalid,
  Forked,
};
