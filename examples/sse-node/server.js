'use strict';

// Streams to browsers from a cluster: see README.md here.
const cluster = require('node:cluster');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const [host, port] = (process.env.BIND ?? '127.0.0.1:9292').split(':');

function runPrimary() {
  let stopping = false;
  for (let i = 0; i < Number(process.env.WORKERS ?? 4); i++) cluster.fork();
  cluster.on('exit', ({ process: { pid } }, code, signal) => {
    if (stopping) return;
    console.error(`worker ${pid} has ended (${signal ?? code}): another one starts`);
    setTimeout(() => stopping || cluster.fork(), 100);
  });
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.on(signal, () => {
      stopping = true;
      for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM');
    });
  }
}

function runWorker() {
  const { Refused } = require('pgwake');
  const { Messages, channelOf } = require('./messages');
  const { Streams } = require('./streams');
  const page = fs.readFileSync(path.join(__dirname, '../sse/page.html'));
  const messages = new Messages(process.env.DATABASE);
  // The listener's own settings come from the environment: PGWAKE_SOCKET, PGWAKE_DATABASE, ...
  const streams = new Streams(messages, {
    name: 'sse-node',
    heartbeat: Number(process.env.HEARTBEAT ?? 15),
    writeTimeout: Number(process.env.WRITE_TIMEOUT ?? 30),
  });

  async function events(url, stream, request, response) {
    const said = request.headers['last-event-id'] ?? url.searchParams.get('last_event_id') ?? '';
    await streams.enter(channelOf(stream), /^\d{1,15}$/.test(said) ? Number(said) : null, response);
  }

  async function publish(action, stream, request, response) {
    const parts = [];
    let size = 0;
    for await (const part of request) {
      if (size < 7000) parts.push(part);
      size += part.length;
    }
    const text = Buffer.concat(parts).subarray(0, 7000).toString().replaceAll('\0', '');
    await messages[action](stream, text);
    response.writeHead(204).end();
  }

  async function answer(request, response) {
    const url = new URL(request.url, 'http://x');
    const get = request.method === 'GET';
    // The stream that a request names. A real application asks here who may read it.
    const name = url.searchParams.get('stream') ?? '';
    const stream = /^[a-z0-9_]{1,49}$/.test(name) ? name : null;
    response.setHeader('x-worker', process.pid);
    if (get && url.pathname === '/') response.writeHead(200, { 'content-type': 'text/html' }).end(page);
    else if (get && url.pathname === '/events' && stream) await events(url, stream, request, response);
    else if (url.pathname === '/events') response.writeHead(get ? 403 : 405).end();
    else if (!['/durable', '/ephemeral'].includes(url.pathname)) response.writeHead(404).end();
    else if (get || !stream) response.writeHead(400).end('which stream?\n');
    else await publish(url.pathname === '/durable' ? 'add' : 'notify', stream, request, response);
  }

  const server = http.createServer((request, response) => {
    answer(request, response).catch((error) => {
      if (response.headersSent || response.destroyed) response.destroy();
      else response.writeHead(error instanceof Refused ? 403 : 503, { 'retry-after': '2' }).end(`${error.message}\n`);
    });
  });
  server.listen(Number(port), host);

  process.on('SIGINT', () => {}); // of a terminal: the primary says when
  process.on('SIGTERM', () => {
    server.close();
    streams.close();
    // What still waits for a browser has a second to go out.
    setTimeout(() => process.exit(0), 1000).unref();
    messages.close().finally(() => process.disconnect());
  });
}

if (cluster.isPrimary) runPrimary();
else runWorker();
