#include "client/src/abi/records.hpp"

#include <cstring>
#include <string_view>

#include "client/src/abi/c_api_support.hpp"

namespace pgwake::client::abi {
namespace {

static_assert(sizeof(pgwake_record) == 48, "bindings know its layout");

constexpr std::size_t alignment = 8;

unsigned char* put(unsigned char* to, std::string_view text) {
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  to[text.size()] = '\0';
  return to + text.size() + 1;
}

}  // namespace

bool record_writer::write(const event& e) {
  const std::string_view payload = e.payload ? std::string_view(*e.payload) : std::string_view();
  const auto bytes = sizeof(pgwake_record) + e.channel.size() + payload.size() + e.reason.size() + 3;
  const auto size = (bytes + alignment - 1) / alignment * alignment;
  if (size > room_.size() - used_) {
    needed_ = size;
    return false;
  }
  pgwake_record r{};
  r.size = static_cast<std::uint32_t>(size);
  r.kind = kind_of(e.what);
  r.source = source_of(e.source);
  r.gap = gap_of(e);
  r.by = e.by;
  r.flags = flags_of(e);
  r.result = result_of(e.how);
  r.channel_size = static_cast<std::uint32_t>(e.channel.size());
  r.payload_size = static_cast<std::uint32_t>(payload.size());
  r.reason_size = static_cast<std::uint32_t>(e.reason.size());
  r.id = e.id;
  auto* const start = room_.data() + used_;
  std::memcpy(start, &r, sizeof r);
  auto* const end = put(put(put(start + sizeof r, e.channel), payload), e.reason);
  std::memset(end, 0, static_cast<std::size_t>(start + size - end));
  used_ += size;
  ++count_;
  return true;
}

}  // namespace pgwake::client::abi
