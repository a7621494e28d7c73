#include "tools/sparcl/kept_record.hpp"

#include <fmt/format.h>

#include <utility>

#include "src/replication/replica_record.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {

Result<KeptRecord> open_record(const RecordPlace& place,
                               const replication::ReplicaCredentials& credentials) {
  KeptRecord record;
  record.trusted = credentials.trusted();
  if (!record.trusted) return record;
  const std::string& output = place.output;
  record.path = replication::record_path_of(
      output.ends_with('/') ? output.substr(0, output.size() - 1) : output);
  if (place.may_roll_back) {
    print_note(
        fmt::format("{} does not count: any version that a trusted key has signed is taken first",
                    record.path));
    return record;
  }
  SPARCL_ASSIGN_OR_RETURN(
      std::optional<replication::Offer> latest,
      replication::load_replica_record(record.path, *record.trusted, place.model_id));
  record.latest = std::move(latest);
  return record;
}

bool RenewedQuestion::operator()(ModelQuestion& question) {
  if (!credentials_.have_changed()) return false;
  Result<replication::ReplicaCredentials> read = credentials_.read_again();
  Result<KeptRecord> record = KeptRecord();
  if (read.ok()) record = open_record(place_, *read);
  if (!read.ok() || !record.ok()) {
    warn(read.ok() ? record.status() : read.status());
    return false;
  }
  credentials_ = std::move(*read);
  record_ = std::move(*record);
  fill(question);
  return true;
}

void RenewedQuestion::fill(ModelQuestion& question) const {
  question.trusted = record_.trusted ? &*record_.trusted : nullptr;
  question.latest = {};
  if (record_.latest) {
    question.latest = {record_.latest->commit.epoch, record_.latest->commit.version,
                       record_.latest};
  }
  question.security = credentials_.security();
}

void RenewedQuestion::warn(const Status& why) {
  if (std::exchange(told_, why.message()) == why.message()) return;
  print_warning(fmt::format("{}; the file has changed, and its content of before still counts",
                            why.message()));
}

}  // namespace sparcl::tool
