#pragma once
// The tensors that a client asks for. Its patterns are not trusted: RE2 matches in linear time and
// in bounded memory.

#include <memory>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/schema.hpp"

namespace sparcl::gateway {

inline constexpr std::size_t kMaxPatterns = 16, kMaxPatternBytes = 1024;

// By the tensor's index: whether it is sent. nullptr: all are.
using TensorFilter = std::shared_ptr<const std::vector<bool>>;

inline bool is_sent(const TensorFilter& filter, std::size_t tensor) {
  return filter == nullptr || (*filter)[tensor];
}

// patterns: a tensor is sent if a part of its name matches one of them; none: all are sent.
// InvalidArgument: a pattern is no expression of RE2, is too long, or no name matches it.
Result<TensorFilter> filter_of(const model::Schema& schema,
                               const std::vector<std::string>& patterns);

}  // namespace sparcl::gateway
