#pragma once

#include <string_view>

namespace pgwaked {

// The page at `/` as one HTML document: metrics_page.{html,css,js}, put together when pgwaked is built.
std::string_view metrics_page();

}  // namespace pgwaked
