#pragma once

#include <string>
#include <string_view>

// Passwords out of what people read. All of it errs towards hiding too much: a connection string that libpq
// would refuse (an unencoded `@` or `/` in a password, a missing quote, a mistyped scheme, a `;` between the
// pairs) still shows no part of its password.
namespace pgwake {

inline constexpr std::string_view hidden = "***";

// `conninfo`, a URI or key=value pairs, with `***` in place of each password: a URI's user information, the
// value of `password`, `sslpassword` and the other keys that hold a secret, and of keys that libpq does not
// know. So is whatever follows a word that ends in password, or stands between `:` and `@`, in any other
// value. Names of files stay.
std::string hide_password(std::string_view conninfo);

// The same for one value, or a text that may be a connection string by mistake.
std::string hide_in_value(std::string_view value);

// Whether `conninfo` holds a password (not an empty one), as far as hide_password() can tell.
bool has_password(std::string_view conninfo);

// Whether `value`, of a key that holds no secret, holds `password=` or the like: what follows was meant for
// libpq's password, and libpq takes it for a part of `value`.
bool has_stray_password(std::string_view value);

// `text`, say an error message of libpq about `conninfo`, with `***` in place of any password of `conninfo`,
// raw or decoded, and of its parts where a wrong parse may have cut it; and of what looks like one in `text`
// itself, whose values may come from the environment. Parts under three bytes stay.
std::string hide_secrets_in(std::string_view text, std::string_view conninfo);

}  // namespace pgwake
