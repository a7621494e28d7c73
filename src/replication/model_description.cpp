#include "src/replication/model_description.hpp"

#include <fmt/format.h>

#include "src/replication/publisher_epoch.hpp"

namespace sparcl::replication {

Status check_description(const ModelReply& reply, const trust::TrustedKeys& trusted,
                         std::uint64_t epoch) {
  if (reply.signatures.empty()) {
    return Status(Code::kUnauthorized,
                  "the description of its model (tensors, file names, header) is not signed, and "
                  "only signed ones are trusted here: start the publisher with --key or --secret");
  }
  SPARCL_RETURN_IF_ERROR(trusted.verify(signed_text(reply), reply.signatures)
                             .with_prefix("the description of its model: "));
  if (reply.epoch >= epoch) return {};
  return Status(Code::kUnauthorized,
                fmt::format("the description of its model is of a publisher that began on {}, and "
                            "this replica has held a version of one that began on {}",
                            epoch_text(reply.epoch), epoch_text(epoch)));
}

}  // namespace sparcl::replication
