import pgwake from './index.js';

export const {
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
} = pgwake;
export default pgwake;
