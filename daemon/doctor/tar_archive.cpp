#include "daemon/doctor/tar_archive.hpp"

#include <algorithm>

namespace pgwaked {
namespace {

constexpr std::size_t block = 512;

// Offsets and widths of a header's fields.
struct field {
  std::size_t at, width;
};
constexpr field name{0, 100}, mode{100, 8}, uid{108, 8}, gid{116, 8}, size{124, 12}, changed{136, 12},
    checksum{148, 8}, type{156, 1}, magic{257, 8}, user{265, 32}, group{297, 32};

void put(std::string& header, field where, std::string_view text) {
  header.replace(where.at, std::min(text.size(), where.width), text.substr(0, where.width));
}

// Octal digits, the last byte of the field is NUL.
void put_number(std::string& header, field where, std::uint64_t number) {
  for (std::size_t i = where.width - 1; i-- > 0; number /= 8)
    header[where.at + i] = static_cast<char>('0' + number % 8);
}

std::string header_of(const archived_file& file, std::uint64_t mtime) {
  std::string out(block, '\0');
  put(out, name, file.name);
  put_number(out, mode, 0600);
  put_number(out, uid, 0);
  put_number(out, gid, 0);
  put_number(out, size, file.content.size());
  put_number(out, changed, mtime);
  put(out, type, "0");
  put(out, magic, std::string_view("ustar\00000", 8));
  put(out, user, "root");
  put(out, group, "root");
  put(out, checksum, "        ");  // as which it counts in the sum
  unsigned sum = 0;
  for (const char c : out) sum += static_cast<unsigned char>(c);
  put_number(out, {checksum.at, 7}, sum);
  return out;
}

}  // namespace

std::string tar_archive(const std::vector<archived_file>& files, std::uint64_t mtime) {
  std::string out;
  for (const auto& file : files) {
    out += header_of(file, mtime);
    out += file.content;
    out.append((block - file.content.size() % block) % block, '\0');
  }
  return out.append(2 * block, '\0');
}

}  // namespace pgwaked
