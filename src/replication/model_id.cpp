#include "src/replication/model_id.hpp"

#include <fmt/format.h>

#include "src/model/fields.hpp"
#include "src/model/text.hpp"

namespace sparcl::replication {

Status check_model_id(std::string_view id) {
  if (id.size() > model::kMaxTextBytes) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the model id has {} bytes: at most {} are allowed", id.size(),
                              model::kMaxTextBytes));
  }
  if (model::to_printable(id) == id) return {};
  return Status(
      Code::kInvalidArgument,
      fmt::format("the model id {} is not UTF-8, or has control characters", model::in_quotes(id)));
}

}  // namespace sparcl::replication
