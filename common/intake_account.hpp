#pragma once

#include <cstdint>

#include "common/time.hpp"

namespace pgwake {

// What came from a server against what libpq handed out of it. libpq keeps a message that is not whole yet and every
// ParameterStatus, whatever their size, and tells nothing of them. Pure: the socket's figures are told. TCP counts what
// it received (tcpi_bytes_received); what still waits in the socket (FIONREAD) was not read by libpq. The two are asked
// one after the other, the total first, so more may wait than the total knows of.
class intake_account {
 public:
  // That much may come beside what is handed out: half a message, notices, parameters, TLS's own bytes. A
  // session that lives for months gets a little more with time. libpq looks through all parameters at each
  // new one, so a few MiB of them would hold it up for minutes.
  static constexpr std::uint64_t most = 512U << 10U;
  static constexpr std::uint64_t most_per_second = 64;

  explicit intake_account(steady_time now) : since_(now) {}

  // TCP: what came before does not count.
  void begin(std::uint64_t total, std::uint64_t waiting) { before_ = read(total, waiting); }
  // libpq handed out so many bytes of the server's.
  void took(std::uint64_t bytes) {
    taken_ += bytes;
    stalled_ = 0;
    fruitless_ = false;
  }
  // A Unix socket counts no bytes. libpq is about to read while so much waits.
  void about_to_read(std::uint64_t waiting);

  // After libpq has read; false: it keeps more than it should.
  bool fits(std::uint64_t total, std::uint64_t waiting, steady_time now) const;  // TCP
  bool fits(steady_time now) const { return stalled_ <= allowed(now); }          // a Unix socket

 private:
  static std::uint64_t read(std::uint64_t total, std::uint64_t waiting) {
    return waiting < total ? total - waiting : 0;
  }
  std::uint64_t allowed(steady_time now) const;

  steady_time since_;
  std::uint64_t before_ = 0;
  std::uint64_t taken_ = 0;
  // What waited each time that libpq read again and nothing was handed out.
  std::uint64_t stalled_ = 0;
  bool fruitless_ = false;
};

}  // namespace pgwake
