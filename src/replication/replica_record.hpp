#pragma once
// The last version that a replica with trusted keys has applied, kept beside its file. After a
// restart the replica takes no older version.

#include <optional>
#include <string>

#include "src/replication/message.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::replication {

// Beside the file or folder: "FILE.sparcl-record". If that name is too long, its hash is used
// instead.
std::string record_path_of(const std::string& file);

// The signed commit. Nothing: there is none yet, or it is signed by a key that is not trusted any
// more (a warning). Corrupt: it is damaged. Mismatch: it is of another model. The messages say what
// to do.
Result<std::optional<Offer>> load_replica_record(const std::string& path,
                                                 const trust::TrustedKeys& trusted,
                                                 const std::optional<std::string>& model_id);

// Replaces it whole. Before the file itself is replaced: what is recorded is never older than what
// was held.
Status save_replica_record(const std::string& path, const Offer& latest);

}  // namespace sparcl::replication
