#include "tools/gateway/tensor_filter.hpp"

#include <fmt/format.h>
#include <re2/re2.h>

#include "src/base/shown_text.hpp"

namespace sparcl::gateway {
namespace {

constexpr std::int64_t kPatternMemory = 1 << 20;  // of one compiled pattern

Status fault(const std::string& pattern, const std::string& what) {
  return Status(Code::kInvalidArgument, fmt::format("tensors: '{}' {}", shown(pattern), what));
}

Status add_matches(const model::Schema& schema, const std::string& pattern,
                   std::vector<bool>& chosen) {
  if (pattern.size() > kMaxPatternBytes)
    return Status(Code::kInvalidArgument,
                  fmt::format("tensors: a pattern has {} bytes, {} are allowed", pattern.size(),
                              kMaxPatternBytes));
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(kPatternMemory);
  const RE2 names(pattern, options);
  if (!names.ok()) return fault(pattern, "is no regular expression (RE2): " + names.error());
  bool is_any = false;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (!RE2::PartialMatch(schema[i].name, names)) continue;
    is_any = chosen[i] = true;
  }
  return is_any ? Status() : fault(pattern, "matches no name: the model has no such tensor");
}

}  // namespace

Result<TensorFilter> filter_of(const model::Schema& schema,
                               const std::vector<std::string>& patterns) {
  if (patterns.empty()) return TensorFilter();
  if (patterns.size() > kMaxPatterns)
    return Status(Code::kInvalidArgument, fmt::format("tensors: {} patterns, {} are allowed",
                                                      patterns.size(), kMaxPatterns));
  std::vector<bool> chosen(schema.size());
  for (const std::string& pattern : patterns)
    SPARCL_RETURN_IF_ERROR(add_matches(schema, pattern, chosen));
  return std::make_shared<const std::vector<bool>>(std::move(chosen));
}

}  // namespace sparcl::gateway
