// Checked by tsc alone: how the types are meant to be used.
import type { Pool } from './pool-of-pg.mjs';
import pgwake, { connect, pool, Refused, type Event, type Gap, type Listener } from '../index.mjs';

const listener: Listener = await connect({ socket: '/s', pollInterval: '500ms', fallbackLimit: 4 });
listener
  .on('notification', ({ channel, payload, processId }) => console.log(channel.length + payload.length + processId))
  .on('gap', (gap: Gap) => console.log(gap.gap === 'hub_lost'))
  .once('state', ({ source, healthy }) => console.log(source === 'own' && healthy))
  .on('refused', ({ code }) => console.log(code));
// @ts-expect-error: there is no such event
listener.on('notice', () => {});
await listener.listen(['a', 'b'], { timeout: 100 });
await listener.unlisten('a');
for await (const event of listener) {
  if (event.kind === 'wake') console.log(event.payload, event.gap);
  // @ts-expect-error: a state or a refusal has no payload
  else console.log(event.payload);
}
const count: number = listener.state.waitingBytes;
const text: (event: Event) => string = (event) => event.reason;
const real = {} as Pool;
const listening = pool(real, { database: 'dbname=shop' });
listening.query('SELECT 1');
console.log(count, text, listening.listener.channels, new Refused('a').code, pgwake.connect);
await listener[Symbol.asyncDispose]();
