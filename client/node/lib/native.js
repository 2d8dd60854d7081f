'use strict';

const path = require('node:path');
const { LibraryMissing, PgwakeError, errorOf } = require('./errors');

let addon;

function loadAddon() {
  const file = path.join(__dirname, '..', 'prebuilds', `${process.platform}-${process.arch}`, 'pgwake.node');
  try {
    return require(file);
  } catch (error) {
    throw new LibraryMissing(
      `pgwake's addon cannot be loaded: ${error.message}. It is made for Linux with glibc on x64 and arm64`,
    );
  }
}

/** At the first use: what LIBPGWAKE names, else libpgwake.so.1. */
function load() {
  const loading = loadAddon();
  const why = loading.load(process.env.LIBPGWAKE || 'libpgwake.so.1');
  if (why !== undefined) {
    throw new LibraryMissing(
      `libpgwake cannot be loaded: ${why}. Install the package libpgwake1, in a version that is not older than this ` +
        '(apt install libpgwake1), or name the library in the variable LIBPGWAKE',
    );
  }
  addon = loading;
}

/** Calls a function of the addon. */
function native(name, ...args) {
  if (addon === undefined) load();
  try {
    return addon[name](...args);
  } catch (error) {
    if (error instanceof PgwakeError || error.code === undefined) throw error;
    throw errorOf(error.code, error.message);
  }
}

module.exports = { native };
