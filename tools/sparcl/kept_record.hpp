#pragma once
// With trusted keys: the record of the version that a subscriber held last, beside its file.

#include <optional>
#include <string>

#include "src/replication/message.hpp"
#include "src/replication/replica_credentials.hpp"
#include "tools/sparcl/model_wait.hpp"

namespace sparcl::tool {

struct RecordPlace {
  std::string output;                   // the subscriber's FILE
  std::optional<std::string> model_id;  // that the user has named
  bool may_roll_back = false;           // what is recorded does not count
};

struct KeptRecord {
  std::optional<trust::TrustedKeys> trusted;  // nothing: no key is trusted, and there is no record
  std::string path;
  std::optional<replication::Offer> latest;
};

Result<KeptRecord> open_record(const RecordPlace& place,
                               const replication::ReplicaCredentials& credentials);

// Reads files of keys that change before the first version; afterwards the subscriber does so. A
// file that cannot be used changes nothing. The arguments outlive it.
class RenewedQuestion {
 public:
  RenewedQuestion(RecordPlace place, replication::ReplicaCredentials& credentials,
                  KeptRecord& record)
      : place_(std::move(place)), credentials_(credentials), record_(record) {}

  // ModelQuestion::renew
  bool operator()(ModelQuestion& question);
  void fill(ModelQuestion& question) const;

 private:
  void warn(const Status& why);

  RecordPlace place_;
  replication::ReplicaCredentials& credentials_;
  KeptRecord& record_;
  std::string told_;
};

}  // namespace sparcl::tool
