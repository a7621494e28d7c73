#include <fmt/format.h>

#include <algorithm>

#include "src/store/object_store.hpp"

namespace sparcl::store {
namespace {

bool is_allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '=';
}

}  // namespace

Status check_key(std::string_view key) {
  const auto refuse = [&](std::string_view why) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}' is no key of a store: {}", key.substr(0, kMaxKey), why));
  };
  if (key.size() > kMaxKey) return refuse(fmt::format("it has more than {} characters", kMaxKey));
  for (std::string_view rest = key;;) {
    const std::size_t end = rest.find('/');
    const std::string_view segment = rest.substr(0, end);
    if (segment.empty()) return refuse("a part of it is empty");
    if (segment.front() == '.') return refuse("a part of it begins with a dot");
    if (segment.size() > kMaxSegment)
      return refuse(fmt::format("a part of it has more than {} characters", kMaxSegment));
    if (!std::ranges::all_of(segment, is_allowed))
      return refuse("only letters, digits, '.', '_', '-' and '=' are allowed");
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
}

}  // namespace sparcl::store
