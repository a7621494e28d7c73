#pragma once
// The name of a model, by which a publisher and its replicas know that they mean the same one.

#include <string_view>

#include "src/base/status.hpp"

namespace sparcl::replication {

// It goes into messages, logs and reports: UTF-8 without control characters, and at most 4,096
// bytes. Empty is a name, too.
Status check_model_id(std::string_view id);

}  // namespace sparcl::replication
