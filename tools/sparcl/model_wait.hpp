#pragma once
// Asks a publisher what it publishes, until an answer can be taken.

#include <optional>
#include <string>

#include "src/trust/trusted_keys.hpp"
#include "tools/sparcl/part_choice.hpp"
#include "tools/sparcl/published_model.hpp"

namespace sparcl::tool {

struct ModelQuestion {
  std::string address;
  std::optional<std::string> model_id;          // the one that is wanted
  const trust::TrustedKeys* trusted = nullptr;  // one of these keys must have signed the answer
  replication::LatestHeld latest;               // what was held last
  PartChoice parts;
  double timeout_s = 0;
};

// Nothing if a stop was asked for. Refusals and answers that cannot be taken are told, and asked
// for again until the time is over: nobody proves who has given them. InvalidArgument: the
// command's own choice of parts does not fit the model.
Result<std::optional<PublishedModel>> wait_for_model(const ModelQuestion& question);

}  // namespace sparcl::tool
