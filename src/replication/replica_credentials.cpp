#include "src/replication/replica_credentials.hpp"

#include <utility>

namespace sparcl::replication {

Result<ReplicaCredentials> ReplicaCredentials::load(Paths paths) {
  ReplicaCredentials made;
  made.paths_ = std::move(paths);
  SPARCL_ASSIGN_OR_RETURN(
      made.security_,
      load_client_security(made.paths_.secret, trust::Role::kReplicate, made.paths_.certificates));
  SPARCL_RETURN_IF_ERROR(made.read_trust());
  return made;
}

Status ReplicaCredentials::read_trust() {
  trust_file_ = FileStamp(paths_.trust);  // before it is read
  SPARCL_ASSIGN_OR_RETURN(trusted_, load_trust(paths_.trust, paths_.threshold, security_));
  return {};
}

bool ReplicaCredentials::have_changed() {
  const bool is_secret_new = security_.file.has_changed();
  return trust_file_.has_changed() || is_secret_new;
}

Result<ReplicaCredentials> ReplicaCredentials::read_again() const {
  ReplicaCredentials made = *this;
  if (made.security_.file.has_changed()) {
    SPARCL_ASSIGN_OR_RETURN(made.security_,
                            load_client_security(paths_.secret, trust::Role::kReplicate));
  }
  SPARCL_RETURN_IF_ERROR(made.read_trust());
  return made;
}

}  // namespace sparcl::replication
