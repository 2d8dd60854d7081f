#include <algorithm>
#include <type_traits>

#include "common/message_codec.hpp"
#include "simulation/clients_world.hpp"
#include "unit/core/describe.hpp"

namespace pgwake::simulation {

using namespace std::chrono_literals;
using pgwaked::engine;
using view = upstream_link::view;
using packet = upstream_link::packet;

// --- sessions with PostgreSQL

void clients_world::connect(party& p) {
  if (p.link.client != view::none) throw violation("U8: " + p.name + " opens a second connection");
  p.link.client = view::connecting;
  schedule(millis(random_.below(20)), [this, &p, generation = ++p.link.generation] {
    if (generation != p.link.generation || p.link.client != view::connecting) return;
    const bool full = server_up_ && sessions() >= most_sessions_;
    if (!server_up_ || full) {
      p.link.client = view::none;
      return p.failed(full);
    }
    auto& l = p.link;
    l.client = view::open;
    l.awaiting = l.busy = l.black_hole = false;
    l.arriving.clear();
    l.server = std::make_shared<database::session>(database_.open());
    note(p.name, " has a session");
    session_info info;
    info.backend_pid = l.server->pid;
    p.connected(info);
  });
}

std::size_t clients_world::sessions() const {
  std::size_t n = hub_.link.server ? 1 : 0;
  for (const auto& c : clients_) n += c.session.link.server ? 1 : 0;
  return n;
}

void clients_world::send(party& p, const std::string& sql) {
  if (p.link.client != view::open) throw violation(p.name + " sends without a session: " + sql);
  if (p.link.awaiting) throw violation(p.name + " sends two queries at once");
  note(p.name, " sends ", sql.substr(0, 60));
  p.link.awaiting = true;
  if (p.link.black_hole) return;
  const auto duration = millis(slow_ && random_.chance(30) ? random_.below(2'000) : random_.below(3));
  schedule(millis(random_.below(3)), [this, &p, generation = p.link.generation, duration, sql] {
    if (generation != p.link.generation || !p.link.server) return;
    p.link.busy = true;
    schedule(duration, [this, &p, generation, sql] { server_finishes(p, generation, sql); });
  });
}

void clients_world::server_finishes(party& p, std::uint64_t generation, const std::string& sql) {
  if (generation != p.link.generation || !p.link.server) return;
  if (sql.starts_with("NOTIFY") && !healed_ && random_.chance(5)) database_.fail_next = "55P03";
  packet result;
  result.what = packet::kind::result;
  result.answer = database_.run(*p.link.server, sql);
  p.link.busy = false;
  push_notifications(hub_);
  for (auto& c : clients_) push_notifications(c.session);
  arrive(p, std::move(result), millis(random_.below(3)));
}

void clients_world::push_notifications(party& p) {
  if (!p.link.server || p.link.busy) return;
  for (auto& n : database_.take(*p.link.server)) {
    packet one;
    one.what = packet::kind::notification;
    one.notification = std::move(n);
    arrive(p, std::move(one), millis(random_.below(slow_ ? 200 : 2)));
  }
}

void clients_world::arrive(party& p, packet what, millis latency) {
  if (p.link.black_hole || p.link.client != view::open) return;
  what.at = now_ + latency;
  if (!p.link.arriving.empty()) what.at = std::max(what.at, p.link.arriving.back().at);
  p.link.arriving.push_back(std::move(what));
}

void clients_world::end_server_session(party& p) {
  if (!p.link.server) return;
  note("server ends the session of ", p.name);
  p.link.server.reset();
  p.link.busy = false;
  packet end;
  end.what = packet::kind::end;
  arrive(p, std::move(end), millis(random_.below(5)));
}

void clients_world::end(party& p) {
  ++p.link.generation;
  p.link.client = view::none;
  p.link.awaiting = p.link.busy = p.link.black_hole = false;
  p.link.server.reset();
  p.link.arriving.clear();
}

bool clients_world::read_pass(party& p) {
  if (p.frozen || !p.link.has_arrived(now_)) return false;
  std::vector<packet> results;
  std::vector<packet> notifications;
  bool ended = false;
  for (auto most = random_.chance(40) ? random_.between(1, 3) : SIZE_MAX;
       most > 0 && p.link.has_arrived(now_) && !ended; --most) {
    auto one = std::move(p.link.arriving.front());
    p.link.arriving.pop_front();
    ended = one.what == packet::kind::end;
    if (!ended) (one.what == packet::kind::result ? results : notifications).push_back(std::move(one));
  }
  const auto generation = p.link.generation;
  p.heard();
  for (auto& one : results) {
    query_result r;
    r.ok = one.answer.ok;
    r.completed = one.answer.completed;
    r.sqlstate = one.answer.sqlstate;
    r.row = std::move(one.answer.row);
    p.link.awaiting = false;
    p.result(r);
    if (generation != p.link.generation) return true;
  }
  for (const auto& one : notifications) {
    note(p.name, " reads ", one.notification.channel, " ", one.notification.payload.substr(0, 30));
    p.notification(one.notification);
    if (generation != p.link.generation) return true;
  }
  if (ended) {
    end(p);
    p.lost();
  }
  return true;
}

// --- the hub

void clients_world::start_hub() {
  if (engine_) return;
  note("hub starts");
  engine::config c;
  c.hub_uuid = "hub" + text(++hubs_);
  c.upstream.self_check = "hub" + text(hubs_) + "check";
  c.upstream.secret = [source = std::make_shared<random_source>(seed_ * 16 + hubs_)] {
    return source->word();
  };
  c.limits.heartbeat = 1s;
  hub_.frozen = false;
  stops_at_.reset();
  engine_ = std::make_unique<engine>(c, seed_ + hubs_);
  engine_->start(now_);
  hub_acts();
}

void clients_world::kill_hub() {
  if (!engine_) return;
  note("hub is gone");
  end(hub_);
  engine_.reset();
  stops_at_.reset();
  for (auto& c : clients_)
    if (c.link != model_client::socket::none) c.ended = true;
}

void clients_world::hub_acts() {
  while (engine_ && !engine_->actions().empty()) {
    for (auto& a : std::exchange(engine_->actions(), {})) {
      if (std::holds_alternative<engine::connect>(a)) {
        connect(hub_);
      } else if (const auto* s = std::get_if<engine::send>(&a)) {
        send(hub_, s->sql);
      } else if (std::holds_alternative<engine::close_session>(a)) {
        end(hub_);
      } else if (const auto* w = std::get_if<engine::close_worker>(&a)) {
        for (auto& c : clients_) {
          if (c.link != model_client::socket::open || c.id != w->worker || c.ended) continue;
          note("hub closes ", c.session.name, ": ", to_string(w->fields));
          if (w->flush) write_to(c);
          hub_hangs_up(c);
        }
      }
    }
  }
}

void clients_world::hub_hangs_up(model_client& c) {
  c.ended = true;
  c.to_hub.clear();
  engine_->left(c.id, now_);
}

bool clients_world::write_to(model_client& c) {
  auto* box = engine_->open_outbox(c.id);
  if (box == nullptr || box->empty() || c.from_hub.size() > 4'000 || now_ < c.clogged_until) return false;
  auto bytes = test::waiting_bytes(*box);
  if (random_.chance(20)) bytes.resize(random_.between(1, bytes.size()));
  c.from_hub += bytes;
  engine_->written(c.id, bytes.size(), now_);
  while (engine_->busy()) engine_->turn(now_);
  return true;
}

bool clients_world::hub_turn() {
  if (!engine_ || hub_.frozen) return false;
  bool did = read_pass(hub_);
  for (auto& c : clients_) {
    if (!engine_) return true;
    if (c.link == model_client::socket::knocking && !c.ended) {
      c.link = model_client::socket::open;
      c.id = engine_->joined({1, 1, 1}, "T" + text(hubs_) + c.session.name + text(random_.word()), now_);
      did = true;
    }
    if (c.link != model_client::socket::open || c.ended) continue;
    if (!c.to_hub.empty() && engine_->may_read(c.id)) {
      const auto n = random_.chance(70) ? c.to_hub.size() : random_.between(1, c.to_hub.size());
      const auto chunk = c.to_hub.substr(0, n);
      c.to_hub.erase(0, n);
      engine_->bytes(c.id, chunk, now_);
      while (engine_->busy()) engine_->turn(now_);
      hub_acts();
      did = true;
    }
    if (!c.ended) did = write_to(c) || did;
  }
  if (const auto due = engine_->deadline(); due && *due <= now_) {
    engine_->tick(now_, !hub_.link.has_arrived(now_));
    hub_acts();
    did = true;
  }
  if (stops_at_ && (engine_->drained() || now_ >= *stops_at_)) {
    tally_.saw(rare::hub_drained);
    engine_->stop(now_);
    hub_acts();
    kill_hub();
    did = true;
  }
  return did;
}

// --- the clients

void clients_world::client_acts(model_client& c) {
  while (!c.actions.empty())
    for (auto& a : std::exchange(c.actions, {})) carry_out(c, a);
}

void clients_world::carry_out(model_client& c, client::machine_action& action) {
  auto& m = *c.machine;
  std::visit(
      [&](auto& x) {
        using kind = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<kind, client::connect_hub>) {
          if (c.link != model_client::socket::none)
            throw violation(c.session.name + " has two links to the hub");
          if (!engine_) return m.hub_failed("refused", false, now_, c.actions);
          c.link = model_client::socket::knocking;
          c.ended = false;
          c.to_hub.clear();
          c.from_hub.clear();
          c.reader = std::make_unique<frame_reader>(max_frame_from_hub);
          m.hub_connected(now_, c.actions);
        } else if constexpr (std::is_same_v<kind, client::close_hub>) {
          if (c.link == model_client::socket::open && !c.ended && engine_) {
            // What was sent before is read before the end is seen.
            engine_->bytes(c.id, c.to_hub, now_);
            while (engine_->busy()) engine_->turn(now_);
            engine_->left(c.id, now_);
            schedule(0ms, [this] { hub_acts(); });
          }
          c.link = model_client::socket::none;
          c.ended = false;
          c.to_hub.clear();
          c.from_hub.clear();
        } else if constexpr (std::is_same_v<kind, client::send_hub>) {
          if (c.link != model_client::socket::none && !c.ended) encode(c.to_hub, x.message);
        } else if constexpr (std::is_same_v<kind, client::open_session>) {
          if (most_slots_ != SIZE_MAX && !c.slot)
            throw violation("C11: " + c.session.name + " connects without a slot");
          // An attempt under way serves the next own connection as well, as in the shell.
          if (c.session.link.client != view::connecting) connect(c.session);
        } else if constexpr (std::is_same_v<kind, client::acquire_slot>) {
          const auto held = static_cast<std::size_t>(
              std::count_if(clients_.begin(), clients_.end(), [](const auto& one) { return one.slot; }));
          c.slot = held < most_slots_;
          if (!c.slot) tally_.saw(rare::slot_denied);
          m.slot(c.slot, c.slot ? "" : "all in use", now_, c.actions);
        } else if constexpr (std::is_same_v<kind, client::release_slot>) {
          if (!c.slot) throw violation("C11: " + c.session.name + " gives up a slot that it does not hold");
          c.slot = false;
        } else if constexpr (std::is_same_v<kind, client::query_session>) {
          send(c.session, x.sql);
        } else if constexpr (std::is_same_v<kind, client::close_session>) {
          end(c.session);
        } else if constexpr (std::is_same_v<kind, client::deliver>) {
          c.events.push(std::move(x.what));
          if (random_.chance(70)) hand_out(c);
        } else if constexpr (std::is_same_v<kind, client::forget>) {
          c.events.forget(x.channel);
        } else if constexpr (std::is_same_v<kind, client::answered>) {
          const auto channel = c.asking.at(x.request);
          c.asking.erase(x.request);
          auto& b = c.books[channel];
          if (x.how.how == client::answer::verdict::nack)
            throw violation("C1: " + channel + " was nacked: " + x.how.reason);
          if (x.how.how != client::answer::verdict::ok || b.subscribed) return;
          hand_out(c);
          note(c.session.name, ": subscribed to ", channel);
          b.subscribed = true;
          b.since = numbers_[channel];
        }
      },
      action);
}

bool clients_world::client_turn(model_client& c) {
  bool did = read_pass(c.session);
  did = client_reads(c) || did;
  if (const auto due = c.machine->deadline(); due && *due <= now_) {
    const bool quiet = c.from_hub.empty() && !c.session.link.has_arrived(now_);
    c.machine->tick(now_, quiet, c.actions);
    client_acts(c);
    did = true;
  }
  if (random_.chance(50)) hand_out(c);
  return did;
}

bool clients_world::client_reads(model_client& c) {
  if (c.link == model_client::socket::none || (c.from_hub.empty() && !c.ended)) return false;
  const auto n = random_.chance(60) ? c.from_hub.size() : random_.below(c.from_hub.size() + 1);
  c.reader->append(c.from_hub.substr(0, n));
  c.from_hub.erase(0, n);
  const auto* reading = c.reader.get();
  std::string_view body;
  while (c.link != model_client::socket::none && c.reader.get() == reading &&
         c.reader->next(body) == frame_reader::outcome::frame) {
    from_hub message;
    std::string why;
    if (!decode(body, message, why)) throw violation("a malformed frame from the hub: " + why);
    ++tally_.frames;
    note("  ", c.session.name, " <- ", test::describe(message));
    if (auto* w = std::get_if<wake>(&message)) {
      if (client::event e; c.machine->hub_wake(std::move(*w), now_, c.actions, e))
        c.events.push(std::move(e));
    } else {
      c.machine->hub_message(std::move(message), now_, c.actions);
    }
    client_acts(c);
  }
  if (c.link != model_client::socket::none && c.reader.get() == reading && c.ended && c.from_hub.empty()) {
    c.link = model_client::socket::none;
    c.ended = false;
    c.to_hub.clear();
    note(c.session.name, ": the hub has closed");
    c.machine->hub_closed("end of file", now_, c.actions);
    client_acts(c);
  }
  return n > 0 || c.ended;
}

void clients_world::hand_out(model_client& c) {
  client::event e;
  while (c.events.pop(e)) {
    if (e.what == client::event::kind::refused) throw violation("C1: " + e.channel + " was refused");
    if (e.what != client::event::kind::wake) continue;
    auto& b = c.books[e.channel];
    const auto who = c.session.name + ", " + e.channel + ": ";
    if (!e.payload) {
      b.dirty = false;
      if (e.gap == gap_cause::none) continue;
      note(c.session.name, " hands out a gap of ", e.channel);
      tally_.saw(rare::client_gap);
      b.since = numbers_[e.channel];  // G2: what is committed from now on is delivered
      continue;
    }
    const auto number = std::stoull(*e.payload);
    note(c.session.name, " hands out ", e.channel, " ", text(number), " from ", client::to_string(e.source));
    if (number <= b.last)
      throw violation("C6: " + who + text(number) + " is handed out after " + text(b.last));
    if (b.subscribed && number > std::max(b.last, b.since) + 1)
      throw violation("C6: " + who + text(number) + " is handed out after " + text(b.last) +
                      " without a gap; what was committed up to " + text(b.since) + " is not owed");
    b.last = number;
  }
}

void clients_world::application(model_client& c, bool subscribe) {
  const auto& channel = random_.pick(channels_);
  auto& b = c.books[channel];
  if (!subscribe) {
    hand_out(c);
    note(c.session.name, " unsubscribes ", channel);
    b.subscribed = b.dirty = false;
    c.machine->unsubscribe(channel, now_, c.actions);
    return client_acts(c);
  }
  const auto request = ++requests_;
  c.asking[request] = channel;
  note(c.session.name, " subscribes ", channel);
  std::optional<steady_time> until;
  if (random_.chance(50)) until = now_ + millis(random_.between(200, 5'000));
  c.machine->subscribe(request, channel, until, now_, c.actions);
  client_acts(c);
}

}  // namespace pgwake::simulation
