#include "support/certificates.hpp"

#include <sys/stat.h>

#include "support/files.hpp"
#include "support/process.hpp"

namespace pgwake::test {

void make_certificates(const std::string& directory) {
  const auto openssl = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "openssl");
    run_ok({.argv = std::move(arguments), .directory = directory});
  };
  const std::string curve = "ec_paramgen_curve:prime256v1";
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", curve, "-nodes", "-days", "2", "-subj",
           "/CN=pgwake test CA", "-keyout", "ca.key", "-out", "ca.crt"});
  openssl({"req", "-newkey", "ec", "-pkeyopt", curve, "-nodes", "-subj", "/CN=localhost", "-keyout",
           "server.key", "-out", "server.csr"});
  write_file(directory + "/san.cnf", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  openssl({"x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial",
           "-days", "2", "-extfile", "san.cnf", "-out", "server.crt"});
  chmod((directory + "/server.key").c_str(), 0600);
  chmod((directory + "/ca.crt").c_str(), 0644);
  for (const char* name : {"server.key", "server.crt"}) give_to_server(directory + "/" + name);
}

}  // namespace pgwake::test
