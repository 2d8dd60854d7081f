#pragma once

#include <string>
#include <vector>

#include "support/server_words.hpp"

/// What a server, or something in between, may answer that nobody asked for.
namespace pgwake::test {

/// Bytes of the protocol that nobody asked for.
struct lie {
  const char* what;
  std::string bytes;
};

inline std::vector<lie> lies() {
  const auto rows = server::one_text_column() + server::times(200'000, server::row("x"));
  std::string many_parameters;
  for (int i = 0; i < 400'000; ++i)
    many_parameters += server::parameter("parameter_" + std::to_string(i), "value");
  return {
      {"CopyIn", server::copy('G')},
      {"CopyOut", server::copy('H')},
      {"CopyBoth", server::copy('W')},
      {"CopyOut with data and an end", server::copy('H') + server::message('d', "x") +
                                           server::message('c', "") + server::complete("COPY 1") +
                                           server::ready()},
      {"ReadyForQuery alone", server::ready()},
      {"too many CommandCompletes",
       server::complete("LISTEN") + server::complete("LISTEN") + server::ready()},
      {"EmptyQueryResponse", server::message('I', "") + server::ready()},
      {"endless rows", rows},
      {"a value of megabytes", server::one_text_column() + server::row(std::string(8U << 20U, 'v'))},
      {"ParameterStatus without end", many_parameters},
      {"notices without end", server::times(400'000, server::trouble('N', "NOTICE", "00000", "again"))},
      {"errors without end", server::times(100'000, server::trouble('E', "ERROR", "XX000", "again"))},
      {"a message that never becomes whole",
       "D" + server::number(1U << 30U, 4) + std::string(16U << 20U, 'x')},
      {"a message that is none", std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)},
  };
}

}  // namespace pgwake::test
