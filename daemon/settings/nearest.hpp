#pragma once

#include <string_view>
#include <vector>

namespace pgwaked {

// The candidate that `name` most likely meant, by edit distance (a swap of neighbours counts once); empty if
// none is near. Case and `-` against `_` do not count. Names over 64 bytes are near to nothing.
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace pgwaked
