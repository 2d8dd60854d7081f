#pragma once

#include <optional>
#include <string_view>

namespace pgwaked {

// Who may ask the metrics server. Pure.
//
// A web site can lead a browser on this host to the port, under a name that belongs to the site (DNS
// rebinding). So by TCP and without a token only the names of the loopback are answered; with one,
// whoever knows it.

// Whether a `Host` header is `localhost`, `127.0.0.1` or `[::1]`, with or without a port, and nothing else.
bool names_loopback(std::string_view host);

// The token of an `Authorization: Bearer TOKEN` header; nullopt for any other scheme.
std::optional<std::string_view> bearer_of(std::string_view authorization);
// How long it takes tells nothing of how much was right.
bool same_token(std::string_view given, std::string_view wanted);

// What keeps the content of a token file from being a token, in words; empty: nothing. RFC 6750's letters,
// 16 to 512.
std::string_view token_fault(std::string_view token);

}  // namespace pgwaked
