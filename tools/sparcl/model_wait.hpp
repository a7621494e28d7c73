#pragma once
// Asks a publisher for its model until an answer can be taken.

#include <functional>
#include <optional>
#include <string>

#include "src/replication/service_security.hpp"
#include "src/trust/trusted_keys.hpp"
#include "tools/sparcl/part_choice.hpp"
#include "tools/sparcl/published_model.hpp"

namespace sparcl::tool {

struct ModelQuestion {
  std::string address;
  std::optional<std::string> model_id;          // of the wanted model
  const trust::TrustedKeys* trusted = nullptr;  // one of these keys must have signed the answer
  replication::LatestHeld latest;               // the last held version
  PartChoice parts;
  double timeout_s = 0;
  replication::ClientSecurity security;
  // Called once a second. True: `trusted`, `latest` and `security` are new, and the publisher is
  // asked at once. Empty: they stay.
  std::function<bool(ModelQuestion&)> renew;
  // Asked while there is no publisher. Empty: nothing else has the model.
  std::function<std::optional<PublishedModel>()> elsewhere = {};
};

// Nothing if a stop was asked for. Refusals and unusable answers are printed, and asked for again
// until the timeout, because their sender is not authenticated. InvalidArgument: the command's own
// choice of parts does not fit the model.
Result<std::optional<PublishedModel>> wait_for_model(ModelQuestion question);

}  // namespace sparcl::tool
