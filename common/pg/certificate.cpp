#include "common/pg/certificate.hpp"

#include <dlfcn.h>

namespace pgwake::pg {
namespace {

// libpq has the TLS library loaded; its headers are no dependency of ours, so its few calls are looked up.
template <typename Function>
Function loaded(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

std::optional<std::int64_t> certificate_expires_in(PGconn* conn) {
  void* ssl = PQsslStruct(conn, "OpenSSL");
  const auto certificate_of = loaded<void* (*)(const void*)>("SSL_get1_peer_certificate");
  const auto end_of = loaded<const void* (*)(const void*)>("X509_get0_notAfter");
  const auto until = loaded<int (*)(int*, int*, const void*, const void*)>("ASN1_TIME_diff");
  const auto release = loaded<void (*)(void*)>("X509_free");
  if (ssl == nullptr || certificate_of == nullptr || end_of == nullptr || until == nullptr ||
      release == nullptr)
    return std::nullopt;
  void* certificate = certificate_of(ssl);
  if (certificate == nullptr) return std::nullopt;
  int days = 0;
  int seconds = 0;
  const bool told = until(&days, &seconds, nullptr, end_of(certificate)) == 1;  // from now
  release(certificate);
  if (!told) return std::nullopt;
  return std::int64_t{86'400} * days + seconds;
}

}  // namespace pgwake::pg
