#include "daemon/operator/listen.hpp"

#include <pgwake/pgwake.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "common/os/only_hub.hpp"
#include "common/units.hpp"
#include "daemon/operator/hub_client.hpp"
#include "daemon/operator/listen_output.hpp"
#include "daemon/terminal/text.hpp"

namespace pgwaked {
namespace {

constexpr int ok = 0;
constexpr int failed = 1;
constexpr int wrong_usage = 2;
constexpr std::chrono::milliseconds usual_timeout{15'000};  // as psql gives up, too
constexpr std::chrono::seconds hub_patience{1};

// The library's options that `listen` takes; the others come from the environment.
constexpr std::array<const char*, 5> names = {"socket", "database", "policy", "fallback_limit", "reattach"};

int complain(const std::string& message, int code) {
  std::cerr << "pgwaked listen: " << message << "\n";
  return code;
}

std::string time_of_day() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm local{};
  localtime_r(&now.tv_sec, &local);
  std::array<char, 32> text{};
  const auto n = std::strftime(text.data(), text.size(), "%H:%M:%S", &local);
  const auto ms = std::to_string(1000 + now.tv_nsec / 1'000'000).substr(1);
  return std::string(text.data(), n) + "." + ms;
}

struct free_options {
  void operator()(pgwake_options* options) const { pgwake_options_free(options); }
};
using options_ptr = std::unique_ptr<pgwake_options, free_options>;

// The library's complaint about an option. It begins with the option's name, and the user wrote a flag.
std::string complaint(const command_values& given) {
  const std::string text = pgwake_last_error();
  for (const auto& [name, values] : given)
    if (text.starts_with(name + "=") || text.starts_with(name + ":"))
      return flag_of(name) + text.substr(name.size());
  return text;
}

// The command line wins over the environment, as with every command. The library would let the environment
// win over its program, so a variable that is overruled is taken away.
bool fill(pgwake_options& options, const command_values& given) {
  if (const char* named = std::getenv("PGWAKE_NAME"); named == nullptr || *named == '\0')
    pgwake_options_set(&options, "name", "pgwaked listen");
  const char* name = nullptr;
  const char* variable = nullptr;
  for (std::size_t i = 0; pgwake_option_info(i, &name, &variable, nullptr, nullptr) == PGWAKE_OK; ++i) {
    const auto said = given.find(name);
    if (said == given.end() || said->second.empty()) continue;
    if (pgwake_options_set(&options, name, said->second.back().c_str()) != PGWAKE_OK) return false;
    unsetenv(variable);
  }
  return true;
}

// Subscribing waits, for ever if it must, so it has a thread of its own; its outcomes are taken by
// the main one.
class subscriber {
 public:
  subscriber(pgwake_handle* handle, const std::vector<std::string>& channels)
      : came_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this, handle, channels] {
          for (const auto& channel : channels) {
            const int result = pgwake_subscribe(handle, channel.c_str(), -1);
            if (result == PGWAKE_CLOSED) return;
            const std::lock_guard lock(guard_);
            outcomes_.push_back({channel, result, result == PGWAKE_OK ? "" : pgwake_last_error()});
            eventfd_write(came_, 1);
          }
        }) {}
  ~subscriber() {
    thread_.join();
    close(came_);
  }
  subscriber(const subscriber&) = delete;
  subscriber& operator=(const subscriber&) = delete;

  struct outcome {
    std::string channel;
    int result;
    std::string error;
  };
  int descriptor() const { return came_; }
  std::deque<outcome> take() {
    const std::lock_guard lock(guard_);
    eventfd_t count = 0;
    eventfd_read(came_, &count);
    return std::exchange(outcomes_, {});
  }

 private:
  int came_;
  std::mutex guard_;
  std::deque<outcome> outcomes_;
  std::thread thread_;
};

// With --json the state's lines have no room for reasons: one that lasts is told on standard
// error, each once.
class lasting_trouble {
 public:
  using clock = std::chrono::steady_clock;

  void is(std::string words, clock::time_point now) {
    if (words_.empty()) since_ = now;
    words_ = std::move(words);
  }
  void is_over() {
    words_.clear();
    told_.clear();
  }
  void tell(clock::time_point now) {
    if (!news() || now < since_ + patience) return;
    told_.insert(words_);
    complain(words_, ok);
  }
  // Milliseconds until tell() has something to say; -1: not as things are.
  int due_in(clock::time_point now) const {
    if (!news()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(since_ + patience - now).count();
    return static_cast<int>(std::max<std::int64_t>(0, left));
  }

 private:
  static constexpr std::chrono::milliseconds patience{1'500};
  static constexpr std::size_t most = 16;  // then it is told no more, whatever a server may make up
  bool news() const { return !words_.empty() && told_.size() < most && !told_.contains(words_); }

  std::string words_;  // empty: all is well
  clock::time_point since_{};
  std::set<std::string, std::less<>> told_;
};

class listener {
 public:
  listener(pgwake_handle* handle, const listen_options& options, std::chrono::milliseconds timeout,
           std::string socket)
      : handle_(handle),
        json_(options.json),
        output_(options.json),
        socket_(std::move(socket)),
        timeout_(timeout) {
    const bool json = options.json;
    if (!options.wait) gives_up_ = clock::now() + timeout_;
    if (!json) output_.clock = &time_of_day;
  }

  int run(int signals, const std::vector<std::string>& channels) {
    int code = ok;
    {
      subscriber asking(handle_, channels);
      code = loop(signals, asking);
      pgwake_shutdown(handle_);  // a subscribe that still waits ends with it
    }
    pgwake_close(handle_);
    return code;
  }

 private:
  using clock = lasting_trouble::clock;
  enum class go { on, done, refused };

  int loop(int signals, subscriber& asking) {
    for (;;) {
      std::array<pollfd, 4> waiting = {pollfd{pgwake_fd(handle_), POLLIN, 0}, pollfd{signals, POLLIN, 0},
                                       pollfd{asking.descriptor(), POLLIN, 0}, pollfd{STDOUT_FILENO, 0, 0}};
      if (poll(waiting.data(), waiting.size(), due_in(clock::now())) < 0 && errno != EINTR)
        return complain("poll failed", failed);
      if (waiting[1].revents != 0) return ok;
      if ((waiting[3].revents & (POLLERR | POLLNVAL)) != 0) return ok;  // nobody reads any more
      // Events first: who serves is known before a subscription is, and is told before it.
      auto outcomes = waiting[2].revents != 0 ? asking.take() : std::deque<subscriber::outcome>();
      const pgwake_event* event = nullptr;
      while (pgwake_next(handle_, &event, 0) == PGWAKE_OK)
        if (const auto next = take(*event); next != go::on) return next == go::done ? ok : failed;
      for (auto& o : outcomes)
        if (const auto next = subscribed(o); next != go::on) return next == go::done ? ok : failed;
      trouble_.tell(clock::now());
      if (gives_up_ && clock::now() >= *gives_up_) return nobody_served();
    }
  }

  // Milliseconds, for poll().
  int due_in(clock::time_point now) const {
    const int told = trouble_.due_in(now);
    if (!gives_up_) return told;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*gives_up_ - now).count();
    const int end = static_cast<int>(std::max<std::int64_t>(0, left));
    return told < 0 ? end : std::min(told, end);
  }

  int nobody_served() const {
    return complain("gave up after " + short_duration(timeout_) + ": " +
                        (last_reason_.empty() ? "nobody serves" : last_reason_) + ". " + why_no_hub() +
                        (why_no_hub().empty() ? "" : " ") + "With --wait it waits on.",
                    failed);
  }

  // In the words of `status`; empty: it answers.
  std::string why_no_hub() const {
    const auto hub = hub_client::open(socket_, "pgwaked listen", hub_patience);
    return hub ? std::string() : hub.error().message;
  }

  go state(const pgwake_event& e) {
    const char* source = pgwake_source_name(e.source);
    if (e.source != PGWAKE_SOURCE_NONE && e.healthy != 0) gives_up_.reset();
    last_reason_ = listen_output::in_words(source, e.healthy != 0, e.reason);
    if (e.healthy != 0)
      trouble_.is_over();
    else if (json_)
      trouble_.is(listen_output::in_words(source, false, e.reason), clock::now());
    if (const auto next = print(output_.state(source, e.healthy != 0, e.reason)); next != go::on) return next;
    return begins_ && std::exchange(begins_, false) ? without_hub(e) : go::on;
  }

  // Who may not connect to the hub would otherwise be served by a connection of his own without a word.
  go without_hub(const pgwake_event& e) {
    if (json_ || e.source == PGWAKE_SOURCE_HUB || socket_.empty()) return go::on;
    const auto why = why_no_hub();
    return why.empty() ? go::on : print(output_.note(why));
  }

  go subscribed(const subscriber::outcome& o) {
    if (o.result != PGWAKE_OK) {
      complain("cannot subscribe to " + o.channel + ": " + o.error, failed);
      return go::refused;
    }
    known_.insert(o.channel);
    if (print(output_.subscribed(o.channel)) != go::on) return go::done;
    for (auto& [channel, line] : std::exchange(early_, {})) {
      if (!known_.contains(channel))
        early_.emplace_back(std::move(channel), std::move(line));
      else if (print(line) != go::on)
        return go::done;
    }
    return go::on;
  }

  go take(const pgwake_event& e) {
    if (e.kind == PGWAKE_EVENT_STATE) return state(e);
    if (e.kind == PGWAKE_EVENT_REFUSED) {
      print(output_.refused(e.channel, e.reason));
      known_.erase(e.channel);
      return known_.empty() ? go::refused : go::on;
    }
    if (e.kind != PGWAKE_EVENT_WAKE) return go::on;
    gives_up_.reset();
    std::optional<std::string_view> payload;
    if (e.payload != nullptr) payload.emplace(e.payload, e.payload_size);
    auto line = output_.wake(e.channel, payload, pgwake_source_name(e.source), pgwake_gap_name(e.gap));
    if (known_.contains(e.channel)) return print(line);
    early_.emplace_back(e.channel, std::move(line));  // its ack is about to be told
    return go::on;
  }

  // Flushed line by line. Done when nobody reads any more.
  static go print(std::string line) {
    if (line.empty()) return go::on;
    line += '\n';
    for (std::string_view rest = line; !rest.empty();) {
      const auto n = write(STDOUT_FILENO, rest.data(), rest.size());
      if (n >= 0) {
        rest.remove_prefix(static_cast<std::size_t>(n));
      } else if (errno == EAGAIN) {
        pollfd writable{STDOUT_FILENO, POLLOUT, 0};
        poll(&writable, 1, -1);
      } else if (errno == EPIPE) {
        return go::done;
      } else if (errno != EINTR) {
        complain("cannot write to standard output: " + std::generic_category().message(errno), failed);
        return go::refused;
      }
    }
    return go::on;
  }

  pgwake_handle* handle_;
  bool json_;
  listen_output output_;
  std::string socket_;  // the hub's; empty: it is not wanted
  std::chrono::milliseconds timeout_;
  lasting_trouble trouble_;
  std::optional<clock::time_point> gives_up_;  // unset once somebody has served
  std::string last_reason_;
  bool begins_ = true;                        // until the first state is told
  std::set<std::string, std::less<>> known_;  // told as subscribed
  std::deque<std::pair<std::string, std::string>> early_;
};

}  // namespace

void add_listen(CLI::App& app, listen_options& into) {
  auto* listen = app.add_subcommand(
      "listen", "Subscribe with the client library and print each event until interrupted");
  listen->add_option("CHANNEL", into.channels, "Channel, as in NOTIFY; case counts")->required();
  listen->add_flag("--json", into.json, "Print one JSON object a line");
  auto* wait = listen->add_flag("--wait", into.wait,
                                "Wait for as long as it takes until hub or database can be reached");
  listen->add_option("--timeout", into.timeout, "Give up when nobody has served for so long [15s]")
      ->type_name("DURATION")
      ->excludes(wait);
  constexpr std::array<std::string_view, 1> config = {"config"};
  add_options(*listen, into.settings, config);
  const char* name = nullptr;
  const char* variable = nullptr;
  const char* value = nullptr;
  const char* about = nullptr;
  for (std::size_t i = 0; pgwake_option_info(i, &name, &variable, &value, &about) == PGWAKE_OK; ++i) {
    const std::string dashed = name;
    if (std::none_of(names.begin(), names.end(), [&](const char* n) { return dashed == n; })) continue;
    listen
        ->add_option_function<std::string>(
            flag_of(dashed), [&into, dashed](const std::string& v) { into.given[dashed] = {v}; },
            std::string(about) + " [" + variable + (*value != '\0' ? ", else " + std::string(value) : "") +
                "]")
        ->type_name("VALUE");
  }
  listen->footer(
      "Exit code: 0, or 1 if it could not subscribe, or nobody served within --timeout and without --wait.");
}

namespace {

// What the hub's own settings file says, for what nobody else has said. Returns what is wrong with it.
std::string take_config(const command_values& settings_given, command_values& given, std::string& socket) {
  constexpr std::array<std::string_view, 3> wanted = {"socket", "config", "database"};
  command_values all = settings_given;
  if (const auto said = given.find("socket"); said != given.end()) all["socket"] = said->second;
  const auto loaded = load(all, real_surroundings(), {wanted, false});
  if (!loaded) return loaded.error().message;
  socket = hub_socket(*loaded);
  if (loaded->values.config.empty()) return {};
  given["socket"] = {socket};
  if (loaded->origin_of("database").from == source::file && !given.contains("database"))
    given["database"] = {loaded->values.database};
  return {};
}

bool never_the_hub(const command_values& given) {
  const auto said = given.find("policy");
  const char* variable = std::getenv("PGWAKE_POLICY");
  const std::string policy = said != given.end() ? said->second.back() : variable != nullptr ? variable : "";
  return policy == "direct";
}

}  // namespace

int listen_command(const listen_options& options) {
  auto timeout = usual_timeout;
  if (!options.timeout.empty()) {
    const auto told = pgwake::parse_duration(options.timeout);
    if (!told || told->count() == 0)
      return complain(
          "--timeout: " + (told ? std::string("write more than 0s, or --wait") : told.error().reason),
          wrong_usage);
    timeout = *told;
  }
  const options_ptr set(pgwake_options_new());
  if (!set) return complain("out of memory", failed);
  auto given = options.given;
  std::string socket;
  if (const auto wrong = take_config(options.settings, given, socket);
      !wrong.empty() && !options.settings.empty())
    return complain(wrong, wrong_usage);
  if (never_the_hub(given)) socket.clear();
  if (!fill(*set, given)) return complain(complaint(options.given), wrong_usage);

  // Taken from a descriptor, and blocked before any thread starts.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  const int interrupted = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (interrupted < 0) return complain("no signalfd", failed);

  pgwake_handle* handle = nullptr;
  if (pgwake_open(&handle, set.get()) != PGWAKE_OK) return complain(complaint(options.given), wrong_usage);
  const int code = listener(handle, options, timeout, socket).run(interrupted, options.channels);
  close(interrupted);
  return code;
}

}  // namespace pgwaked
