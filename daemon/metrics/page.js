'use strict';
// Reads /metrics once a second, keeps five minutes of it, and draws. No library, no request but that one.
const period = 1000, keep = 300, shortest = 60;  // ms, samples, seconds shown at least
const $ = (query, from = document) => from.querySelector(query);
const past = [];  // {t: seconds, v: {series: value}, h: {histogram: [[bound, cumulated count]]}}
const help = {};

// --- reading --------------------------------------------------------------------------------------------------

function parse(text) {
  const v = {}, h = {}, info = {};
  for (const line of text.split('\n')) {
    const about = /^# HELP (\S+) (.*)/.exec(line);
    if (about) help[about[1]] = about[2];
    if (!line || line[0] === '#') continue;
    const at = line.lastIndexOf(' ');
    const series = line.slice(0, at), value = Number(line.slice(at + 1));
    const bucket = /^(\w+)_bucket\{le="([^"]+)"\}$/.exec(series);
    if (bucket) (h[bucket[1]] ||= []).push([bucket[2] === '+Inf' ? Infinity : Number(bucket[2]), value]);
    else v[series] = value;
    if (series.startsWith('pgwaked_info{'))
      for (const [, name, label] of series.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) info[name] = label.replace(/\\(.)/g, '$1');
  }
  return {t: performance.now() / 1000, v, h, info};
}

const last = () => past[past.length - 1];
const value = (name, s = last()) => s?.v[name] ?? null;
const workers = s => (value('pgwaked_workers{dialect="v0"}', s) ?? 0) + (value('pgwaked_workers{dialect="v1"}', s) ?? 0);

// Per second, between sample i and the one before.
function rate(name, i) {
  if (i < 1) return null;
  const a = past[i - 1], b = past[i];
  return (b.v[name] - a.v[name]) / (b.t - a.t);
}
function gained(name, span = keep) {
  const first = past[Math.max(0, past.length - 1 - span)];
  return value(name) - value(name, first);
}
// What was observed between two samples, per bucket.
function between(name, from, to) {
  let before = 0;
  return to.h[name].map(([bound, count], k) => {
    const sum = count - from.h[name][k][1], own = sum - before;
    before = sum;
    return [bound, own];
  });
}
const nothing = {h: new Proxy({}, {get: () => Array(99).fill([0, 0])})};
function quantile(buckets, q) {
  const total = buckets.reduce((sum, [, n]) => sum + n, 0);
  if (!total) return null;
  let seen = 0, lower = 0;
  for (const [bound, n] of buckets) {
    if (seen + n >= q * total && n) return bound === Infinity ? lower : lower + (bound - lower) * (q * total - seen) / n;
    seen += n;
    lower = bound;
  }
  return lower;
}
// Over the `span` samples before sample i.
const latency = (q, i, name = 'wake', span = 5) =>
  i < 1 ? null : quantile(between(`pgwaked_${name}_latency_seconds`, past[Math.max(0, i - span)], past[i]), q);

// --- words ----------------------------------------------------------------------------------------------------

const digits = n => n >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString('en') : n.toPrecision(n < 1 ? 1 : 2);
function short(n, units, base) {
  if (n === null || n === undefined || Number.isNaN(n)) return '–';
  let k = 0;
  while (n >= base && k < units.length - 1) n /= base, k++;
  return (k && n < 10 ? n.toFixed(1) : digits(n)) + units[k];
}
const count = n => n < 100000 ? digits(n) : short(n, ['', ' k', ' M', ' G'], 1000);
const tickCount = n => n < 10000 ? digits(n) : short(n, ['', ' k', ' M', ' G'], 1000);
const perSecond = n => n === null ? '–' : count(n);
const bytes = n => short(n, [' B', ' KiB', ' MiB', ' GiB'], 1024);
function time(s) {
  if (s === null) return '–';
  if (s < 0.001) return digits(s * 1e6) + ' µs';
  if (s < 1) return digits(s * 1e3) + ' ms';
  return digits(s) + ' s';
}
function age(s) {
  const parts = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']].map(([n, unit]) => {
    const whole = Math.floor(s / n);
    s -= whole * n;
    return whole ? `${whole} ${unit}` : '';
  }).filter(Boolean);
  return parts.slice(0, 2).join(' ') || '0 s';
}
const reasons = {
  connecting: 'PostgreSQL cannot be reached. Workers wait or fall back; the hub keeps trying.',
  login: 'PostgreSQL refuses the login. Check the user, the password and pg_hba.conf.',
  recovery: 'The server is a standby, and LISTEN works on a primary only. Give the primary, or several hosts.',
  pooler: 'There is a pooler in between, through which LISTEN does not work. Connect to PostgreSQL itself.',
  relisten: 'The session is new and every channel is being listened to again.',
  silent: 'The server went silent in the middle of a session, which is being replaced.',
  deaf: 'The session did not hear its own NOTIFY and is being replaced.',
  listen: 'PostgreSQL refuses LISTEN; the log has its words.',
};

function element(tag, attributes, ...children) {
  const e = document.createElementNS(tag === 'b' || tag === 'i' || tag === 'span' ? 'http://www.w3.org/1999/xhtml' : 'http://www.w3.org/2000/svg', tag);
  for (const [k, x] of Object.entries(attributes)) e.setAttribute(k, x);
  e.append(...children);
  return e;
}
function text(e, ...parts) { e.replaceChildren(...parts); }

// --- drawing --------------------------------------------------------------------------------------------------

const shown = () => Math.max(shortest, past.length ? last().t - past[0].t : 0);
const colour = name => `var(--${name})`;

// One line through what is not null.
function path(values, x, y) {
  let d = '', pen = false;
  values.forEach((n, i) => {
    if (n === null || Number.isNaN(n)) return void (pen = false);
    d += `${pen ? 'L' : 'M'}${x(i).toFixed(1)} ${y(n).toFixed(1)}`;
    pen = true;
  });
  return d;
}
function area(values, x, y, base) {
  const from = values.findIndex(n => n !== null);
  if (from < 0) return '';
  const line = path(values.map(n => n ?? 0).slice(from), i => x(i + from), y);
  return `${line}L${x(values.length - 1).toFixed(1)} ${base}L${x(from).toFixed(1)} ${base}Z`;
}

function spark(svg, values, tone) {
  const w = svg.clientWidth, h = 44, top = Math.max(...values.filter(n => n !== null), 1e-9) * 1.15;
  const x = i => w - (last().t - past[i].t) / shown() * w, y = n => h - 2 - n / top * (h - 6);
  svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
  text(svg, element('path', {d: area(values, x, y, h), fill: colour(tone), opacity: .13}),
    element('path', {d: path(values, x, y), fill: 'none', stroke: colour(tone), 'stroke-width': 1.8, 'stroke-linejoin': 'round'}));
}

// From 0 to what is over `top`, in at most five round steps.
function ticksOf(top, binary) {
  const power = 10 ** Math.floor(Math.log10(top));
  const step = binary ? 2 ** Math.ceil(Math.log2(top / 4)) : power * [.2, .5, 1, 2, 5].find(s => top / (s * power) <= 4);
  return Array.from({length: Math.ceil(top / step - 1e-9) + 1}, (_, i) => i * step);
}

let hover = null;  // a fraction of the plots' width
function frame(svg, left) {
  const w = svg.clientWidth, h = 190, right = 4, bottom = 20;
  svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
  text(svg);
  return {w, h, left, right, bottom, inner: w - left - right};
}
function grid(svg, f, ticks, y, format) {
  for (const tick of ticks)
    svg.append(element('path', {d: `M${f.left} ${y(tick)}H${f.w - f.right}`, stroke: colour('grid')}),
      element('text', {x: f.left - 8, y: y(tick) + 4, 'text-anchor': 'end'}, format(tick)));
}

// series: {label, tone, values, format}; the legend shows the value under the pointer, or the last.
function plot(id, series, {format, log = false, binary = false, least = 1}) {
  const box = $('#plot-' + id), svg = $('svg', box), f = frame(svg, 58);
  const all = series.flatMap(s => s.values).filter(n => n !== null && !Number.isNaN(n));
  const x = i => f.w - f.right - (last().t - past[i].t) / shown() * f.inner;
  let y, ticks;
  if (log) {
    const low = Math.floor(Math.log10(Math.max(1e-5, Math.min(...all, 1e-4)))), high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(...all, 1e-3))));
    y = n => 6 + (high - Math.log10(Math.max(n, 10 ** low))) / (high - low) * (f.h - f.bottom - 6);
    ticks = Array.from({length: high - low + 1}, (_, i) => 10 ** (low + i));
  } else {
    ticks = ticksOf(Math.max(least, ...all) * 1.02, binary);
    const top = ticks[ticks.length - 1];
    y = n => 6 + (1 - n / top) * (f.h - f.bottom - 6);
  }
  grid(svg, f, ticks, y, format);
  const minutes = shown() > 150 ? 60 : shown() > 90 ? 30 : 15;
  for (let ago = 0; ago < shown() - 5; ago += minutes)
    svg.append(element('text', {x: f.w - f.right - ago / shown() * f.inner, y: f.h - 3, 'text-anchor': ago ? 'middle' : 'end'},
      ago ? `−${ago % 60 ? ago + ' s' : ago / 60 + ' min'}` : 'now'));
  series.forEach((s, k) => {
    if (!k && !log) svg.append(element('path', {d: area(s.values, x, y, f.h - f.bottom), fill: colour(s.tone), opacity: .1}));
    svg.append(element('path', {d: path(s.values, x, y), fill: 'none', stroke: colour(s.tone), 'stroke-width': 1.8, 'stroke-linejoin': 'round'}));
  });
  let at = past.length - 1;
  if (hover !== null) {
    const t = last().t - (1 - hover) * shown();
    at = past.reduce((best, s, i) => Math.abs(s.t - t) < Math.abs(past[best].t - t) ? i : best, 0);
    svg.append(element('path', {d: `M${x(at)} 6V${f.h - f.bottom}`, stroke: colour('faint'), 'stroke-dasharray': '3 3'}));
    for (const s of series)
      if (s.values[at] !== null) svg.append(element('circle', {cx: x(at), cy: y(s.values[at]), r: 3, fill: colour(s.tone)}));
  }
  text($('.legend', box), ...series.map(s => element('span', {}, element('i', {style: `background:${colour(s.tone)}`}), s.label,
    element('b', {}, (s.format ?? format)(s.values[at])))));
}

// How many deliveries took how long, over the last minute.
function spread() {
  const box = $('#plot-spread'), svg = $('svg', box), f = frame(svg, 58);
  const from = past[Math.max(0, past.length - 61)];
  const buckets = between('pgwaked_wake_latency_seconds', from, last());
  const total = buckets.reduce((sum, [, n]) => sum + n, 0), p99 = quantile(buckets, .99);
  const ticks = ticksOf(Math.max(4, ...buckets.map(([, n]) => n)) * 1.02), top = ticks[ticks.length - 1];
  const y = n => 6 + (1 - n / top) * (f.h - f.bottom - 6), each = f.inner / buckets.length;
  grid(svg, f, ticks, y, tickCount);
  buckets.forEach(([bound, n], i) => {
    const lower = i ? buckets[i - 1][0] : 0, height = f.h - f.bottom - y(n), label = bound === Infinity ? 'longer' : time(bound);
    svg.append(element('rect', {x: f.left + i * each + 1.5, width: Math.max(1, each - 3), y: f.h - f.bottom - Math.max(height, n ? 2 : 0),
      height: Math.max(height, n ? 2 : 0), rx: 2, fill: colour(p99 !== null && lower > p99 ? 'amber' : 'blue'), opacity: .85},
      element('title', {}, `up to ${label}: ${n.toLocaleString('en')}`)));
    if ([.0001, .001, .01, .1, 1, 10].includes(bound))
      svg.append(element('text', {x: f.left + (i + 1) * each, y: f.h - 3, 'text-anchor': 'middle'}, label));
  });
  const share = bound => total ? (100 * buckets.filter(([b]) => b <= bound).reduce((sum, [, n]) => sum + n, 0) / total).toPrecision(3) + ' %' : '–';
  text($('.legend', box), element('span', {}, 'last minute', element('b', {}, count(total))),
    element('span', {}, 'within 1 ms', element('b', {}, share(.001))), element('span', {}, '100 ms', element('b', {}, share(.1))));
}

function tile(id, big, unit, sub, values, tone) {
  const box = $('#tile-' + id);
  text($('.big', box), big, ...(unit ? [Object.assign(document.createElement('small'), {textContent: unit})] : []));
  text($('.sub', box), sub);
  spark($('svg', box), values, tone);
}

// --- the parts ------------------------------------------------------------------------------------------------

const each = make => past.map((s, i) => make(i, s));
const limits = [
  ['Workers', s => workers(s), 'pgwaked_workers_limit', count],
  ['Channels', 'pgwaked_channels', 'pgwaked_channels_limit', count],
  ['Fullest outbox, bytes', 'pgwaked_worker_outbox_bytes', 'pgwaked_worker_outbox_limit_bytes', bytes],
  ['Fullest outbox, frames', 'pgwaked_worker_outbox_frames', 'pgwaked_worker_outbox_limit_frames', count],
  ['All outboxes', 'pgwaked_outbox_bytes', 'pgwaked_outbox_limit_bytes', bytes],
  ['PostgreSQL’s notify queue', 'pgwaked_upstream_queue_usage_ratio', 1, n => short(n * 100, [' %'], 1e9)],
];
const events = [
  ['Reconnects to PostgreSQL', 'pgwaked_upstream_reconnects_total'],
  ['Gaps announced after outages', 'pgwaked_gaps_total'],
  ['Workers evicted for reading too slowly', 'pgwaked_workers_evicted_total'],
  ['Workers refused', 'pgwaked_workers_refused_total'],
  ['Subscriptions refused', 'pgwaked_nacks_total'],
  ['Protocol errors', 'pgwaked_protocol_errors_total'],
  ['Lines of the log that were lost', 'pgwaked_log_lines_dropped_total'],
];

function showLimits() {
  text($('#limits .rows'), ...limits.map(([label, now, most, format]) => {
    const n = typeof now === 'string' ? value(now) : now(last()), limit = typeof most === 'number' ? most : value(most);
    const part = n === null ? 0 : n / limit, row = document.createElement('div');
    row.className = 'row';
    row.append(element('span', {}, label), document.createElement('em'));
    text(row.lastChild, element('b', {}, n === null ? '–' : format(n)), most === 1 ? '' : ` of ${format(limit)}`);
    const bar = document.createElement('div');
    bar.className = 'bar' + (part >= .8 ? ' hot' : part >= .5 ? ' warm' : '');
    bar.append(element('i', {style: `width:${n ? Math.max(.5, Math.min(100, part * 100)) : 0}%`}));
    row.append(bar);
    return row;
  }));
}
function showEvents() {
  text($('#events .rows'), ...events.map(([label, name]) => {
    const row = document.createElement('div'), fresh = gained(name);
    row.className = 'row';
    row.append(element('span', {}, label), document.createElement('em'));
    text(row.lastChild, ...(fresh ? [element('b', {class: 'new'}, `+${count(fresh)}`), ' lately, '] : []), element('b', {}, count(value(name))));
    return row;
  }));
}
function showAll() {
  if (!$('#all').open) return;
  const wanted = $('#all input').value.toLowerCase(), rows = [];
  for (const [series, n] of Object.entries(last().v)) {
    const name = series.split('{')[0], about = help[name] ?? help[name.replace(/_(sum|count)$/, '')] ?? '';
    if (wanted && !(series + about).toLowerCase().includes(wanted)) continue;
    const row = document.createElement('tr');
    for (const cell of [series.replace(/"/g, ''), n.toLocaleString('en', {maximumFractionDigits: 6}), about])
      row.append(Object.assign(document.createElement('td'), {textContent: cell}));
    row.firstChild.className = 'code';
    rows.push(row);
  }
  text($('#all tbody'), ...rows);
}

function showState(state, words, advice) {
  document.body.dataset.state = state;
  $('#state span').textContent = words;
  $('#banner').hidden = !advice;
  if (advice) text($('#banner'), element('b', {}, words), advice);
  const tone = getComputedStyle(document.body).getPropertyValue('--tone');
  $('#icon').href = 'data:image/svg+xml,' + encodeURIComponent(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="6" fill="${tone}"/></svg>`);
}
function showHead() {
  const s = last(), version = Number(s.info.server_version);
  const reason = Object.keys(s.v).map(k => /^pgwaked_unhealthy_reason\{reason="([^"]*)"/.exec(k)?.[1]).find(Boolean);
  $('#database').textContent = s.info.database || 'pgwaked';
  $('#about').textContent = [s.info.host, `pgwaked ${s.info.version}`, version ? `PostgreSQL ${Math.floor(version / 10000)}.${version % 10000}` : '',
    `up ${age(value('pgwaked_uptime_seconds'))}`, bytes(value('process_resident_memory_bytes'))].filter(Boolean).join(' · ');
  document.title = `${s.info.database || 'pgwaked'} on ${s.info.host}: ${reason ?? 'healthy'}`;
  if (!reason) return showState('healthy', 'Healthy');
  if (reason === 'draining') return showState('draining', 'Draining', 'The hub is about to stop; workers move to connections of their own.');
  showState('degraded', `Degraded: ${reason}`, (reasons[reason] ?? '') + ' On this host, pgwaked status and pgwaked doctor say more.');
}

function show() {
  if (!past.length) return;
  const end = past.length - 1, lat = q => each(i => latency(q, i));
  const p50 = lat(.5), p99 = lat(.99), notifications = each(i => rate('pgwaked_notifications_total', i));
  const delivered = each(i => rate('pgwaked_wakes_delivered_total', i)), coalesced = each(i => rate('pgwaked_wakes_coalesced_total', i));
  const acks = each(i => rate('pgwaked_acks_total', i));
  showHead();
  tile('notifications', perSecond(notifications[end]), 'per second', `${count(value('pgwaked_notifications_total'))} since the start`, notifications, 'blue');
  tile('wakes', perSecond(delivered[end]), 'per second', `${perSecond(coalesced[end])} more merged`, delivered, 'teal');
  tile('latency', time(p99[end]), '', `half within ${time(p50[end])}`, p99, 'violet');
  // Subscriptions are rare: those seen here, else all since the start.
  const acked = q => latency(q, end, 'ack', keep) ?? quantile(between('pgwaked_ack_latency_seconds', nothing, last()), q);
  tile('acks', time(acked(.99)), '', `half within ${time(acked(.5))}`, acks, 'blue');
  tile('workers', count(workers(last())), '', `on ${count(value('pgwaked_channels'))} channels`, each((i, s) => workers(s)), 'amber');
  plot('rate', [{label: 'wakes delivered', tone: 'teal', values: delivered, format: perSecond}, {label: 'merged', tone: 'amber', values: coalesced, format: perSecond},
    {label: 'notifications', tone: 'blue', values: notifications, format: perSecond}], {format: tickCount, least: 10});
  plot('latency', [{label: 'p50', tone: 'blue', values: p50}, {label: 'p90', tone: 'teal', values: lat(.9)}, {label: 'p99', tone: 'violet', values: p99}], {format: time, log: true});
  plot('backlog', [{label: 'all outboxes', tone: 'blue', values: each((i, s) => value('pgwaked_outbox_bytes', s))},
    {label: 'the fullest', tone: 'amber', values: each((i, s) => value('pgwaked_worker_outbox_bytes', s))}], {format: bytes, binary: true, least: 1024});
  spread();
  showLimits();
  showEvents();
  showAll();
}

// --- the loop -------------------------------------------------------------------------------------------------

async function ask() {
  const answer = await fetch('/metrics', {headers: {Accept: 'text/plain'}, signal: AbortSignal.timeout(5000)});
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  return parse(await answer.text());
}
async function sample() {
  setTimeout(sample, period);
  let s;
  try {
    s = await ask();
  } catch (error) {
    return showState('silent', 'No answer', `The hub does not answer (${error.message}). It stopped, or this page's way to it is cut.`);
  }
  if (past.length && s.info.hub !== last().info.hub) past.length = 0;  // another hub: its counters begin anew
  past.push(s);
  if (past.length > keep) past.shift();
  show();
}
for (const box of document.querySelectorAll('.plots figure:not(#plot-spread) svg')) {
  box.addEventListener('pointermove', e => {
    const r = box.getBoundingClientRect();
    hover = Math.min(1, Math.max(0, (e.clientX - r.left - 58) / (r.width - 62)));
    show();
  });
  box.addEventListener('pointerleave', () => { hover = null; show(); });
}
$('#all').addEventListener('toggle', showAll);
$('#all input').addEventListener('input', showAll);
addEventListener('resize', show);
sample();
