// What a worker of another user can ask of a hub with frames that are all in order, and too many.
#include <thread>

#include "attack/attack.hpp"
#include "attack/horde.hpp"
#include "support/connection.hpp"
#include "support/frame_socket.hpp"

namespace pgwake::attack {
namespace {

constexpr std::string_view ping = R"({"t":"ping","id":18446744073709551615})";
constexpr std::string_view stats = R"({"t":"stats"})";

// Sends `frame` on every connection for as long as it is taken, and reads the answers or not.
void flood(horde& many, const cease& stop, const std::string& frame, bool reads, int at_once = 100) {
  std::string batch;
  for (int i = 0; i < at_once; ++i) batch += test::frame_of(frame);
  while (!stop) {
    bool taken = false;
    for (std::size_t i = 0; i < many.size() && !stop; ++i) {
      if (many.send_raw(i, batch)) taken = true;
      if (reads) many.read(i);
    }
    if (!taken) std::this_thread::sleep_for(1ms);  // every socket is full
  }
}

void hold(const cease& stop, horde& many) {
  while (!stop) {
    for (std::size_t i = 0; i < many.size(); ++i) many.send_raw(i, {});
    std::this_thread::sleep_for(5ms);
  }
}

void many_channels(horde& many, std::size_t index, int count, const std::string& prefix) {
  std::string all;
  for (int i = 0; i < count; ++i) all += test::frame_of(sub_of(prefix + std::to_string(i)));
  many.send_raw(index, all);
}

void stats_storm(const target& t, const cease& stop) {
  horde one(t.socket, 1);
  many_channels(one, 0, 20'000, "wide.");
  const auto settled = clock::now() + 700ms;
  while (clock::now() < settled && !stop) {
    one.send_raw(0, {});
    one.read(0);
  }
  std::string storm;
  for (int i = 0; i < 3'100; ++i) storm += test::frame_of(stats);
  one.send_raw(0, storm);
  while (!stop) {
    one.send_raw(0, {});
    one.read(0);
  }
}

void stats_of_many(const target& t, const cease& stop) {
  horde many(t.socket, 100);
  for (std::size_t i = 0; i < many.size(); ++i)
    many_channels(many, i, 10, "crowd." + std::to_string(i) + ".");
  flood(many, stop, std::string(stats), true, 10);
}

void stats_unread(const target& t, const cease& stop) {
  horde many(t.socket, 300);
  for (std::size_t i = 0; i < many.size(); ++i)
    many_channels(many, i, 30, "crowd." + std::to_string(i) + ".");
  flood(many, stop, std::string(stats), false, 10);
}

void churn(const target& t, const cease& stop) {
  horde many(t.socket, 500);
  while (!stop)
    for (std::size_t i = 0; i < many.size() && !stop; ++i) {
      const auto name = "churn." + std::to_string(i);
      for (int n = 0; n < 20; ++n) {
        many.send(i, sub_of(name));
        many.send(i, unsub_of(name));
      }
      many.read(i);
    }
}

void pings(const target& t, const cease& stop) {
  horde many(t.socket, 2'000);
  flood(many, stop, std::string(ping), true);
}

void pongs_unread(const target& t, const cease& stop) {
  horde many(t.socket, 2'300);
  flood(many, stop, std::string(ping), false, 500);
}

void nacks_unread(const target& t, const cease& stop) {
  horde many(t.socket, 500);
  flood(many, stop, sub_of(std::string(1'000, 'n')), false, 60);
}

void acks_unread(const target& t, const cease& stop) {
  horde many(t.socket, 300);
  flood(many, stop, sub_of("again"), false, 500);
}

void channels_at_once(const target& t, const cease& stop) {
  horde one(t.socket, 1);
  many_channels(one, 0, 50'000, "all.");
  while (!stop) {
    one.send_raw(0, {});
    one.read(0);
  }
}

void channels_of_many(const target& t, const cease& stop) {
  horde many(t.socket, 50);
  for (std::size_t i = 0; i < many.size(); ++i)
    many_channels(many, i, 1'000, "part." + std::to_string(i) + ".");
  hold(stop, many);
}

void cycling_names(const target& t, const cease& stop) {
  horde many(t.socket, 20);
  for (std::size_t n = 0; !stop; ++n)
    for (std::size_t i = 0; i < many.size() && !stop; ++i) {
      const auto name = "cycle." + std::to_string(i) + "." + std::to_string(n);
      many.send_raw(i, test::frame_of(sub_of(name)) + test::frame_of(unsub_of(name)));
      many.read(i);
    }
}

void unsubs(const target& t, const cease& stop) {
  horde many(t.socket, 50);
  flood(many, stop, unsub_of("never held"), true, 1'000);
}

void unknown_frames(const target& t, const cease& stop) {
  horde many(t.socket, 50);
  flood(many, stop, R"({"t":"what","a":[1,2,{"b":null}],"c":")" + std::string(2'000, 'c') + "\"}", true, 30);
}

void v0_workers(const target& t, const cease& stop) {
  horde many(t.socket, 500, false);
  flood(many, stop, sub_of("queue"), true, 50);
}

// Workers that do not read, and a role that sends them what they have subscribed.
void deaf_workers(const target& t, const cease& stop, std::size_t count, std::string_view channel, int size) {
  horde many(t.socket, count);
  for (std::size_t i = 0; i < many.size(); ++i) many.send(i, sub_of(channel));
  test::connection role(t.conninfo);
  const auto sql = "SELECT pg_notify('" + std::string(channel) + "', lpad(n::text, " + std::to_string(size) +
                   ", 'x')) FROM generate_series(1, 100) n";
  while (!stop) {
    role.exec(sql);
    for (std::size_t i = 0; i < many.size(); ++i) many.send_raw(i, {});
  }
}

void deaf_to_large(const target& t, const cease& stop) { deaf_workers(t, stop, 20, "flood", 7'000); }
void deaf_to_small(const target& t, const cease& stop) { deaf_workers(t, stop, 20, "flood", 10); }

// Together above what all queues may hold, each for itself far from its own bound.
void four_hundred_with_little(const target& t, const cease& stop) {
  horde many(t.socket, 400);
  for (std::size_t i = 0; i < many.size(); ++i) many.send(i, sub_of("slow"));
  test::connection role(t.conninfo);
  for (int i = 0; i < 2 && !stop; ++i)
    role.exec("SELECT pg_notify('slow', lpad(n::text, 7000, 'x')) FROM generate_series(1, 100) n");
  hold(stop, many);
}

}  // namespace

const std::vector<attack>& flood_attacks() {
  static const std::vector<attack> all{
      {"stats-storm", "worker", "20,000 channels, then 3,100 stats in one write", stats_storm, true},
      {"stats-of-many", "worker", "100 connections of 10 channels ask for stats", stats_of_many, true},
      {"stats-unread", "worker", "300 connections ask for stats and do not read", stats_unread},
      {"churn", "worker", "500 connections sub and unsub", churn, true},
      {"pings", "worker", "2,000 connections ping", pings, true},
      {"pongs-unread", "worker", "2,300 connections ping and do not read", pongs_unread, true},
      {"nacks-unread", "worker", "500 connections, nacks of 1,000 bytes, unread", nacks_unread},
      {"acks-unread", "worker", "300 connections sub one channel again and again, unread", acks_unread},
      {"channels-at-once", "worker", "50,000 subs in one write", channels_at_once, true},
      {"channels-of-many", "worker", "50 connections with 1,000 channels each", channels_of_many},
      {"cycling-names", "worker", "20 connections, a new name each time", cycling_names},
      {"unsubs", "worker", "unsubs of what was never held", unsubs},
      {"unknown-frames", "worker", "frames of an unknown kind", unknown_frames},
      {"v0-workers", "worker", "500 workers of the old dialect sub one queue", v0_workers},
      {"deaf-large", "worker + role", "20 workers do not read payloads of 7,000 bytes", deaf_to_large, true},
      {"deaf-small", "worker + role", "20 workers do not read payloads of 10 bytes", deaf_to_small},
      {"four-hundred", "worker + role", "400 workers hold 1.4 MB each unread, five innocent ones as well",
       four_hundred_with_little, true},
  };
  return all;
}

}  // namespace pgwake::attack
