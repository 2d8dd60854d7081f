#include <catch2/catch.hpp>

#include <cstdlib>
#include <new>
#include <string>

#include "common/message_codec.hpp"

using namespace pgwake;

// This program's allocator fails where it is told to.
namespace {

long allowed = -1;  // so many more allocations succeed; negative: all

void* allocate(std::size_t size) {
  if (allowed == 0) return nullptr;
  if (allowed > 0) --allowed;
  return std::malloc(size == 0 ? 1 : size);
}

// How often it fails before there is enough.
template <class Body>
int starve(Body&& body) {
  for (int n = 0; n < 10'000; ++n) {
    bool enough = true;
    allowed = n;
    try {
      body();
    } catch (const std::bad_alloc&) {
      enough = false;
    }
    allowed = -1;
    if (enough) return n;
  }
  return -1;
}

template <class Message>
std::string decoded(const std::string& json) {
  Message message;
  std::string why;
  return decode(json, message, why) ? "ok" : why;
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* p = allocate(size)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

TEST_CASE("C9: whichever allocation of a decode fails, it throws, and the next try is as good as the first") {
  const std::string text(5'000, 'x');
  std::string members;
  for (int i = 0; i < 40; ++i)
    members += ",\"m" + std::to_string(i) + "\":[" + std::to_string(i) + ",\"" + text + "\"]";
  for (const auto& json :
       {std::string(R"({"t":"welcome","v":1,"hub":"0f8fad5b-d9cb-469f-a165-70867728950e","db":"shop"})"),
        R"({"t":"status","healthy":false,"reason":")" + text + "\"}", "{\"t\":\"stats\"" + members + "}",
        R"({"t":"nack","q":")" + text.substr(0, 1'000) + R"(","code":"limit","reason":"\u00e9)" + text +
            "\"}",
        R"({"t":"wake","gap":"reconnect","q":"a channel of a few bytes","p":null,"p64":"AAAA","x":")" + text +
            "\"}",
        std::string(
            R"({"t":"bye","code":"shutdown","reason":"a few words that the string itself cannot hold"})")}) {
    INFO(json.substr(0, 40));
    const auto wanted = decoded<from_hub>(json);
    std::string got;
    CHECK(starve([&] { got = decoded<from_hub>(json); }) > 0);
    CHECK(got == wanted);
    const auto as_hub = decoded<from_worker>(json);
    starve([&] { got = decoded<from_worker>(json); });
    CHECK(got == as_hub);
  }
}
