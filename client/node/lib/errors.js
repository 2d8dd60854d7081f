'use strict';

/** A call of the library failed. All other errors of this package derive from it. */
class PgwakeError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** libpgwake, or this package's own addon, was not found or is too old. */
class LibraryMissing extends PgwakeError {}

/** A channel was refused, and will be again. */
class Refused extends PgwakeError {
  constructor(channel, reason) {
    super(`${channel}: ${reason}`);
    this.channel = channel;
    /** The hub's, such as "forbidden" or "invalid_channel". */
    this.code = codeOf(reason);
  }
}

/** Not within the deadline; what was asked for is not so. */
class TimeoutError extends PgwakeError {}

/** The listener was closed, or the channel was unlistened meanwhile. */
class Closed extends PgwakeError {}

/** An argument or a setting makes no sense. */
class Invalid extends PgwakeError {}

/** The listener was opened by the parent process. */
class Forked extends PgwakeError {}

const kinds = { timeout: TimeoutError, forked: Forked, closed: Closed, invalid: Invalid };

/** What a refusal begins with. */
function codeOf(reason) {
  return /^[^:]*/.exec(reason)[0];
}

/** The error for a result that is not "ok", by the result's name. */
function errorOf(result, why, channel) {
  if (result === 'nack') return new Refused(channel, why);
  const Kind = kinds[result] ?? PgwakeError;
  return new Kind(channel === undefined ? why : `${channel}: ${why}`);
}

module.exports = { PgwakeError, LibraryMissing, Refused, TimeoutError, Closed, Invalid, Forked, codeOf, errorOf };
