#include "integration/browser.hpp"

#include <fcntl.h>
#include <poll.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

namespace pgwake::test {
namespace {

constexpr milliseconds answer_time{30'000};

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("pipe");
  return ends;
}

std::string text_of(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

std::string base64_decoded(std::string_view text) {
  static const std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = alphabet.find(c);
    if (digit == std::string_view::npos) break;
    bits = (bits << 6U) | static_cast<unsigned>(digit);
    if ((count += 6) >= 8) out += static_cast<char>((bits >> static_cast<unsigned>(count -= 8)) & 0xFFU);
  }
  return out;
}

}  // namespace

std::string json_quoted(const std::string& text) {
  rapidjson::Document value;
  value.SetString(text.c_str(), static_cast<rapidjson::SizeType>(text.size()), value.GetAllocator());
  return text_of(value);
}

bool browser::installed() { return access("/usr/bin/chromium", X_OK) == 0; }

browser::browser() {
  const auto commands = make_pipe();
  const auto answers = make_pipe();
  process_.emplace(process_options{
      .argv = {"/usr/bin/chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
               "--no-first-run", "--disable-background-networking", "--disable-component-update",
               "--disable-sync", "--disable-default-apps", "--disable-dev-shm-usage", "--hide-scrollbars",
               "--user-data-dir=" + home_.path(), "--remote-debugging-pipe", "about:blank"},
      .env = {{"HOME", home_.path()}},
      .descriptors = {{commands[0], 3}, {answers[1], 4}}});
  close(commands[0]);
  close(answers[1]);
  to_ = commands[1];
  from_ = answers[0];
  const auto target = call("Target.createTarget", R"({"url":"about:blank"})");
  const std::string id = target["result"]["targetId"].GetString();
  const auto attached =
      call("Target.attachToTarget", R"({"flatten":true,"targetId":)" + json_quoted(id) + "}");
  session_ = attached["result"]["sessionId"].GetString();
  for (const auto* domain : {"Page", "Runtime", "Log", "Network"}) call(std::string(domain) + ".enable");
}

std::string browser::receive(clock::time_point deadline) {
  while (true) {
    const auto end = unread_.find('\0');
    if (end != std::string::npos) {
      auto message = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return message;
    }
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - clock::now());
    pollfd ready{from_, POLLIN, 0};
    std::array<char, 65536> buffer{};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0)
      throw std::runtime_error("Chromium does not answer; it said:\n" + process_->err());
    const auto n = read(from_, buffer.data(), buffer.size());
    if (n <= 0) throw std::runtime_error("Chromium ended; it said:\n" + process_->err());
    unread_.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

rapidjson::Document browser::call(const std::string& method, const std::string& parameters) {
  const int id = ++last_id_;
  auto command =
      "{\"id\":" + std::to_string(id) + ",\"method\":" + json_quoted(method) + ",\"params\":" + parameters;
  if (!session_.empty()) command += ",\"sessionId\":" + json_quoted(session_);
  command += '}';
  command += '\0';
  if (write(to_, command.data(), command.size()) != static_cast<ssize_t>(command.size()))
    throw_errno("a command to Chromium");
  const auto deadline = clock::now() + answer_time;
  while (true) {
    rapidjson::Document message;
    message.Parse(receive(deadline).c_str());
    if (message.HasParseError()) throw std::runtime_error("Chromium sends no JSON");
    if (!message.HasMember("id")) {
      note(message);
    } else if (message["id"].GetInt() == id) {
      if (message.HasMember("error"))
        throw std::runtime_error("Chromium refuses " + method + ": " + text_of(message["error"]));
      return message;
    }
  }
}

void browser::note(const rapidjson::Document& event) {
  const std::string method = event["method"].GetString();
  const auto& what = event["params"];
  if (method == "Network.requestWillBeSent") {
    const std::string url = what["request"]["url"].GetString();
    if (url.compare(0, 5, "data:") != 0) requests_.push_back(url);
  } else if (method == "Runtime.exceptionThrown" || method == "Log.entryAdded") {
    complaints_.push_back(text_of(what));
  } else if (method == "Runtime.consoleAPICalled" && std::string(what["type"].GetString()) == "error") {
    complaints_.push_back(text_of(what));
  }
}

void browser::size(int width, int height) {
  call("Emulation.setDeviceMetricsOverride", "{\"width\":" + std::to_string(width) +
                                                 ",\"height\":" + std::to_string(height) +
                                                 ",\"deviceScaleFactor\":1,\"mobile\":false}");
}

void browser::dark(bool yes) {
  call("Emulation.setEmulatedMedia", std::string(R"({"features":[{"name":"prefers-color-scheme","value":")") +
                                         (yes ? "dark" : "light") + "\"}]}");
}

void browser::open(const std::string& url) {
  requests_.clear();
  complaints_.clear();
  const auto answer = call("Page.navigate", "{\"url\":" + json_quoted(url) + "}");
  if (answer["result"].HasMember("errorText"))
    throw std::runtime_error(url + ": " + answer["result"]["errorText"].GetString());
  if (!eventually("document.readyState === 'complete' && document.body !== null", 15s))
    throw std::runtime_error(url + " does not load");
}

std::string browser::evaluate(const std::string& expression) {
  const auto answer =
      call("Runtime.evaluate", "{\"returnByValue\":true,\"awaitPromise\":true,\"expression\":" +
                                   json_quoted("String(" + expression + ")") + "}");
  const auto& result = answer["result"];
  if (result.HasMember("exceptionDetails"))
    throw std::runtime_error(expression + ": " + text_of(result["exceptionDetails"]));
  return result["result"]["value"].GetString();
}

bool browser::eventually(const std::string& condition, milliseconds patience) {
  const auto deadline = deadline_in(patience);
  while (evaluate(condition) != "true") {
    if (clock::now() > deadline) return false;
    std::this_thread::sleep_for(50ms);
  }
  return true;
}

void browser::screenshot(const std::string& path) {
  const auto answer = call("Page.captureScreenshot", R"({"format":"png","captureBeyondViewport":true})");
  write_file(path, base64_decoded(answer["result"]["data"].GetString()));
}

}  // namespace pgwake::test
