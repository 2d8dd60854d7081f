#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace pgwaked::door {

// Names of channels in order, and what they take in memory.
class name_set {
 public:
  using names = std::set<std::string, std::less<>>;

  void insert(const std::string& name) {
    if (names_.insert(name).second) bytes_ += cost(name);
  }
  void erase(std::string_view name) {
    if (const auto it = names_.find(name); it != names_.end()) erase(it);
  }
  names::const_iterator erase(names::const_iterator it) {
    bytes_ -= cost(*it);
    return names_.erase(it);
  }
  void clear() { *this = {}; }
  // False: it is not in `from`.
  bool take(name_set& from, std::string_view name) {
    const auto it = from.names_.find(name);
    if (it == from.names_.end()) return false;
    from.bytes_ -= cost(*it);
    bytes_ += cost(*it);
    names_.insert(from.names_.extract(it));
    return true;
  }

  bool contains(std::string_view name) const { return names_.contains(name); }
  bool empty() const { return names_.empty(); }
  std::size_t size() const { return names_.size(); }
  names::const_iterator begin() const { return names_.begin(); }
  names::const_iterator end() const { return names_.end(); }
  const names& all() const { return names_; }
  std::size_t bytes() const { return bytes_; }

 private:
  // The tree's node with the string in it, the string's own memory, and what malloc adds to both.
  static std::size_t cost(std::string_view name) { return 80 + (name.size() < 16 ? 0 : name.size() + 17); }

  names names_;
  std::size_t bytes_ = 0;
};

}  // namespace pgwaked::door
