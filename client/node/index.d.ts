/// <reference types="node" />
import { EventEmitter } from 'node:events';

/** Who serves, or where an event came from: the hub, a PostgreSQL connection of one's own, nobody (of an event: the library). */
export type Source = 'hub' | 'own' | 'none';
/** Why notifications may have been missed. */
export type Cause = 'reconnect' | 'hub_lost' | 'overflow' | 'forked';

/** The options of docs/client.md, in camel case (`pollInterval`) or as they stand there (`poll_interval`). */
export interface ConnectOptions {
  /** Path of the hub's socket. */
  socket?: string;
  /** libpq connection string of the own connection. */
  database?: string;
  /** What `pgwaked status` calls this worker. */
  name?: string;
  /** What happens while the hub cannot serve. */
  policy?: 'listener' | 'poll' | 'none' | 'direct';
  /** The PGWAKE_ variables are not looked at. */
  ignoreEnvironment?: boolean;
  /** All others, such as `pollInterval: '500ms'`. */
  [option: string]: string | number | boolean | null | undefined;
}

interface Base {
  readonly source: Source;
  /** For people; '' but for a state and a refusal. */
  readonly reason: string;
}

/** A notification, a reminder ("something changed, read again"), or a gap. */
export interface Notification extends Base {
  readonly kind: 'wake';
  readonly channel: string;
  /** '' if there is none. */
  readonly payload: string;
  /** The payload's bytes where they are not UTF-8, else null. */
  readonly data: Buffer | null;
  /** Of the PostgreSQL backend that notified; 0: unknown or several. */
  readonly processId: number;
  /** No payload, or a gap: read again whatever the channel stands for. */
  readonly readAgain: boolean;
  /** Not null: notifications on this channel may have been missed. */
  readonly gap: Cause | null;
}

/** Notifications on this channel may have been missed. */
export interface Gap extends Notification {
  readonly gap: Cause;
}

/** Who serves, or how well, has changed. */
export interface StateChange extends Base {
  readonly kind: 'state';
  /** Everything listened to is being served. */
  readonly healthy: boolean;
}

/** A channel that was listened to is refused now. */
export interface Refusal extends Base {
  readonly kind: 'refused';
  readonly channel: string;
  /** Such as 'forbidden'. */
  readonly code: string;
}

export type Event = Notification | StateChange | Refusal;

/** A snapshot, as pgwake_state of pgwake.h. */
export interface State {
  source: Source;
  healthy: boolean;
  handingOver: boolean;
  ownSlot: boolean;
  channels: number;
  waiting: number;
  waitingBytes: number;
  wakes: number;
  coalesced: number;
  discarded: number;
  gaps: number;
  falls: number;
  handovers: number;
  handoversAborted: number;
  hubConnects: number;
  ownConnects: number;
  reason: string;
  hub: string;
}

export interface ListenerEvents {
  notification: [notification: Notification];
  /** Without a handler, gaps are emitted as `notification`. */
  gap: [gap: Gap];
  state: [state: StateChange];
  refused: [refusal: Refusal];
  /** It is closed. */
  end: [];
}

type Handler<K extends keyof ListenerEvents> = (...args: ListenerEvents[K]) => void;

/**
 * Receives notifications. What comes waits until there is a handler of `notification`, or a `for await`; while one of these
 * runs it sets the pace, and handlers are called for what it takes.
 */
export class Listener extends EventEmitter {
  private constructor();

  /** What is listened to. */
  readonly channels: string[];
  readonly closed: boolean;
  /** @throws {Closed} */
  readonly state: State;

  /**
   * Resolves once every notification committed from now on is delivered, or a gap on that channel is. Rejects with Refused or
   * TimeoutError for the first channel that is not listened to; the others are.
   *
   * @param options.timeout milliseconds, 10,000 unless given; Infinity: for ever
   */
  listen(channels: string | Iterable<string>, options?: { timeout?: number }): Promise<void>;
  /** No notification of these channels is handed out any more. */
  unlisten(channels: string | Iterable<string>): Promise<void>;
  /** Ends everything: a `for await` ends, what waits rejects with Closed. May be called again. */
  close(): Promise<void>;
  /** An open listener keeps the process alive; after unref() it does not. */
  ref(): this;
  unref(): this;

  /** All events, until the listener is closed. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Event>;
  [Symbol.asyncDispose](): Promise<void>;

  on<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
  once<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
  off<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
  addListener<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
  prependListener<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
  prependOnceListener<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
  removeListener<K extends keyof ListenerEvents>(name: K, handler: Handler<K>): this;
}

/** Opens a listener, which connects in the background; never waits for the network. Rejects with Invalid. */
export function connect(options?: ConnectOptions): Promise<Listener>;

/**
 * A pool that looks like the given one of pg. A client of its connect() takes no connection for LISTEN and UNLISTEN: these go
 * to one listener for all clients, and notifications come as the client's event `notification`, gaps as `gap`, refusals
 * as `refused`. The first other query takes a connection from the pool, until release(), which ends what the client listens
 * to as well. Everything else is the pool's own.
 *
 * LISTEN takes effect at once, in a transaction too.
 */
export function pool<P extends object>(pgPool: P, options?: ConnectOptions): P & { readonly listener: Listener };

/** A call failed. All other errors of this package derive from it. */
export class PgwakeError extends Error {}
/** libpgwake, or this package's own addon, was not found or is too old. */
export class LibraryMissing extends PgwakeError {}
/** A channel was refused, and will be again. */
export class Refused extends PgwakeError {
  readonly channel: string;
  /** The hub's, such as 'forbidden' or 'invalid_channel'. */
  readonly code: string;
}
/** Not within the deadline; what was asked for is not so. */
export class TimeoutError extends PgwakeError {}
/** The listener was closed, or the channel was unlistened meanwhile. */
export class Closed extends PgwakeError {}
/** An argument or a setting makes no sense. */
export class Invalid extends PgwakeError {}
/** The listener was opened by the parent process. */
export class Forked extends PgwakeError {}
