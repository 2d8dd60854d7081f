#include "daemon/metrics/server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "daemon/metrics/page.hpp"
#include "daemon/settings/metrics_access.hpp"
#include "daemon/settings/option_value.hpp"

namespace pgwaked {

namespace http = boost::beast::http;
using boost::system::error_code;

namespace {

constexpr int accepts_per_turn = 8;
constexpr std::size_t max_header = 8 * 1024;
constexpr std::size_t max_leftover = 64 * 1024;  // of a body that nobody asked for
constexpr std::chrono::seconds lifetime{10};

// Nothing from elsewhere, whatever a value on the page may look like.
constexpr const char* page_policy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

using request = http::request<http::empty_body>;
using response = http::response<http::string_body>;

response answer(http::status status, std::string_view type, std::string body) {
  response r{status, 11};
  r.set(http::field::server, "pgwaked");
  r.set(http::field::content_type, {type.data(), type.size()});
  r.set(http::field::cache_control, "no-store");
  r.set("X-Content-Type-Options", "nosniff");
  r.set("Cross-Origin-Resource-Policy", "same-origin");
  r.keep_alive(false);
  r.body() = std::move(body);
  return r;
}

response say(http::status status, std::string text) {
  return answer(status, "text/plain; charset=utf-8", std::move(text) + "\n");
}

std::string_view view_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

struct policy {
  bool tcp = false;
  std::string token;
};

// What keeps a request from being answered; nothing: it may be.
std::optional<response> refusal(const request& asked, const policy& who) {
  const auto host = view_of(asked[http::field::host]);
  const auto hosts = asked.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && asked.version() >= 11))  // RFC 9112, 3.2
    return say(http::status::bad_request, "a request has one Host");
  if (who.tcp && who.token.empty() && hosts == 1 && !names_loopback(host))
    return say(
        http::status::misdirected_request,
        "this is pgwaked's metrics page; it answers to localhost, 127.0.0.1 and [::1] alone, so that no web "
        "site can read it through a browser here. A proxy in front of it must send one of these as Host.");
  if (asked.method() != http::verb::get && asked.method() != http::verb::head) {
    auto r = say(http::status::method_not_allowed, "only GET and HEAD");
    r.set(http::field::allow, "GET, HEAD");
    return r;
  }
  return std::nullopt;
}

std::optional<response> unauthorized(const request& asked, const policy& who) {
  if (!who.tcp || who.token.empty()) return std::nullopt;
  const auto given = bearer_of(view_of(asked[http::field::authorization]));
  if (given && same_token(*given, who.token)) return std::nullopt;
  auto r = say(http::status::unauthorized,
               "this takes a header `Authorization: Bearer TOKEN`, with the token of "
               "metrics_token_file; /livez and /readyz do not");
  r.set(http::field::www_authenticate, "Bearer");
  return r;
}

response page() {
  auto r = answer(http::status::ok, "text/html; charset=utf-8", std::string(metrics_page()));
  r.set("Content-Security-Policy", page_policy);
  r.set("Referrer-Policy", "no-referrer");
  return r;
}

// The reason is one of a few words that say nothing of where and what.
response health(const metrics_server::content& content) {
  if (const auto why = content.unhealthy())
    return say(http::status::service_unavailable,
               "unhealthy: " + *why + " (`pgwaked status` on this host says more)");
  return say(http::status::ok, "healthy");
}

response respond(const request& asked, const metrics_server::content& content, const policy& who) {
  if (auto no = refusal(asked, who)) return std::move(*no);
  const auto target = view_of(asked.target());
  const auto path = target.substr(0, target.find('?'));
  if (path == "/livez") return say(http::status::ok, "alive");
  if (path == "/readyz" || path == "/healthz") return health(content);
  if (auto no = unauthorized(asked, who)) return std::move(*no);
  if (path == "/") return page();
  if (path == "/metrics") {
    const auto format = accepted_format(view_of(asked[http::field::accept]));
    auto r = answer(http::status::ok, content_type(format), content.metrics(format));
    r.set(http::field::vary, "Accept");
    return r;
  }
  return say(http::status::not_found, "nothing here; there are /, /metrics, /livez, /readyz and /healthz");
}

[[noreturn]] void fail_errno(const std::string& what, const std::string& advice) {
  throw std::runtime_error(what + ": " + std::strerror(errno) + "; " + advice);
}

}  // namespace

// What connections share, which may outlive the server by a turn.
struct metrics_server::table {
  using row = std::deque<std::weak_ptr<connection>>;  // oldest first

  content what;
  policy who;
  row waiting;  // for a request
  row asked;

  static void make_room(row& in, std::size_t most);
  void has_asked(const std::shared_ptr<connection>& c);
};

// One request and its answer. Lives while an operation of its own is under way.
class metrics_server::connection : public std::enable_shared_from_this<connection> {
 public:
  connection(const boost::asio::any_io_executor& executor, unique_fd fd, std::shared_ptr<table> all)
      : socket_(executor), timer_(executor), table_(std::move(all)) {
    error_code error;
    // The protocol is only asked about when connecting.
    socket_.assign(boost::asio::generic::stream_protocol(table_->who.tcp ? AF_INET : AF_UNIX, 0), fd.get(),
                   error);
    if (!error) fd.release();
    parser_.header_limit(max_header);
  }

  void start() {
    timer_.expires_after(lifetime);
    timer_.async_wait([alive = weak_from_this()](const error_code& cancelled) {
      if (const auto self = alive.lock(); self && !cancelled) self->close();
    });
    http::async_read_header(
        socket_, buffer_, parser_,
        [self = shared_from_this()](const error_code& error, std::size_t) { self->read(error); });
  }

  void close() {
    error_code ignored;
    socket_.close(ignored);
    timer_.cancel();
  }

 private:
  void read(const error_code& error) {
    if (!socket_.is_open()) return;  // it had to make room
    table_->has_asked(shared_from_this());
    if (!error)
      answer_ = respond(parser_.get(), table_->what, table_->who);
    else if (error == http::error::header_limit || error == http::error::buffer_overflow)
      answer_ = say(http::status::request_header_fields_too_large, "the request's header is over 8 KiB");
    else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message)
      answer_ = say(http::status::bad_request, "this is no HTTP/1 request: " + error.message());
    else
      return close();
    answer_.prepare_payload();
    if (!error && parser_.get().method() == http::verb::head) answer_.body().clear();
    http::async_write(socket_, answer_, [self = shared_from_this()](const error_code& failed, std::size_t) {
      if (failed) return self->close();
      self->answer_ = {};
      error_code ignored;
      self->socket_.shutdown(boost::asio::socket_base::shutdown_send, ignored);
      self->await_end();
    });
  }

  // Closing with unread bytes would reset the connection under the answer.
  void await_end() {
    socket_.async_read_some(boost::asio::buffer(leftover_),
                            [self = shared_from_this()](const error_code& error, std::size_t n) {
                              self->left_ += n;
                              if (error || self->left_ > max_leftover) return self->close();
                              self->await_end();
                            });
  }

  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<table> table_;
  boost::beast::flat_buffer buffer_{max_header + 1024};
  http::request_parser<http::empty_body> parser_;
  response answer_;
  std::array<char, 1024> leftover_{};
  std::size_t left_ = 0;
};

void metrics_server::table::make_room(row& in, std::size_t most) {
  std::erase_if(in, [](const auto& c) { return c.expired(); });
  while (in.size() >= most) {
    if (const auto oldest = in.front().lock()) oldest->close();
    in.pop_front();
  }
}

void metrics_server::table::has_asked(const std::shared_ptr<connection>& c) {
  std::erase_if(waiting, [&](const auto& other) { return other.lock() == c; });
  make_room(asked, max_asked);
  asked.push_back(c);
}

metrics_server::metrics_server(boost::asio::any_io_executor executor, log& out, const settings& s,
                               std::string token, content what)
    : executor_(executor),
      log_(out),
      address_(s.metrics_listen),
      main_socket_(s.socket),
      table_(std::make_shared<table>()),
      acceptor_(
          std::move(executor), out, [this](unique_fd fd, const peer&) { welcome(std::move(fd)); },
          accepts_per_turn) {
  table_->what = std::move(what);
  table_->who = {address_.kind == metrics_address::family::tcp, std::move(token)};
  if (address_.kind == metrics_address::family::unix_socket)
    file_.emplace(
        socket_file::settings{address_.path, s.socket_mode, s.socket_gid, "--metrics-listen unix:PATH"});
}

metrics_server::~metrics_server() = default;

void metrics_server::start() {
  if (file_) {
    if (address_.path == main_socket_)
      throw std::runtime_error("metrics_listen names " + main_socket_ +
                               ", where workers connect; metrics need a socket of their own");
    file_->lock();
    acceptor_.start(file_->bind());
  } else {
    acceptor_.start(open_tcp());
  }
  log_.info("metrics served", pgwake::log_fields().add("address", to_string(address_)));
}

unique_fd metrics_server::open_tcp() const {
  const auto where = to_string(address_);
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(address_.port);
  const bool is_v4 = inet_pton(AF_INET, address_.host.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && inet_pton(AF_INET6, address_.host.c_str(), &v6.sin6_addr) != 1)
    throw std::runtime_error("metrics_listen " + where + " is no numeric address");
  unique_fd fd(socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_errno("cannot make a socket for metrics_listen " + where, "use another address, or off");
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* address = is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
  const socklen_t size = is_v4 ? sizeof v4 : sizeof v6;
  if (bind(fd.get(), address, size) != 0 || listen(fd.get(), SOMAXCONN) != 0)
    fail_errno("cannot listen on metrics_listen " + where,
               "another program may use that port (`ss -tlnp` shows it): choose another, or off");
  return fd;
}

void metrics_server::look() {
  if (!file_ || file_->look() != socket_file::state::gone) return;
  try {
    auto fresh = file_->bind();
    acceptor_.stop();
    acceptor_.start(std::move(fresh));
    trouble_.clear();
    log_.warning("metrics socket gone, bound again", pgwake::log_fields().add("socket", address_.path));
  } catch (const std::exception& e) {
    if (trouble_ == e.what()) return;  // said
    trouble_ = e.what();
    log_.error("metrics socket gone",
               pgwake::log_fields().add("socket", address_.path).add("reason", trouble_));
  }
}

void metrics_server::welcome(unique_fd fd) {
  table::make_room(table_->waiting, max_waiting);
  const auto fresh = std::make_shared<connection>(executor_, std::move(fd), table_);
  table_->waiting.push_back(fresh);
  fresh->start();
}

void metrics_server::set_token(std::string token) { table_->who.token = std::move(token); }

void metrics_server::stop() {
  acceptor_.stop();
  for (auto* row : {&table_->waiting, &table_->asked})
    for (const auto& c : std::exchange(*row, {}))
      if (const auto open = c.lock()) open->close();
  if (file_) file_->remove();
}

process_figures figures_of_this_process(double start) {
  process_figures f;
  f.start_time_seconds = start;
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    f.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  std::uint64_t pages_total = 0;
  std::uint64_t pages_resident = 0;
  if (std::ifstream statm("/proc/self/statm"); statm >> pages_total >> pages_resident)
    f.resident_bytes = pages_resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code unreadable;
  for (std::filesystem::directory_iterator it("/proc/self/fd", unreadable), end; !unreadable && it != end;
       it.increment(unreadable))
    ++f.open_fds;
  if (f.open_fds > 0) --f.open_fds;  // the one that looks
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) f.max_fds = limit.rlim_cur;
  return f;
}

}  // namespace pgwaked
