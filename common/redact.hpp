#pragma once

#include <string>
#include <string_view>

// Passwords out of what people read. All of it errs towards hiding too much: a connection string that libpq
// would refuse (an unencoded `@` or `/` in a password, a missing quote, a mistyped scheme) still shows no
// part of its password.
namespace pgwake {

inline constexpr std::string_view hidden = "***";

// `conninfo`, a URI or key=value pairs, with `***` in place of each password: a URI's user information,
// `password`, `sslpassword` and the other keys that hold a secret. Names of files stay.
std::string hide_password(std::string_view conninfo);

// Whether `conninfo` holds a password (not an empty one).
bool has_password(std::string_view conninfo);

// `text`, say an error message of libpq about `conninfo`, with `***` in place of any password of `conninfo`,
// raw or decoded, and of its parts where a wrong parse may have cut it. Parts under three bytes stay.
std::string hide_secrets_in(std::string_view text, std::string_view conninfo);

}  // namespace pgwake
