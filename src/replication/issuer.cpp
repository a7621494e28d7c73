#include "src/replication/issuer.hpp"

namespace sparcl::replication {

Status Issuer::seal(Update& update, StreamDigest& digested) const {
  SPARCL_RETURN_IF_ERROR(digested.finish(update.bytes, update.commit.stream_bytes));
  update.leaves = digested.take_leaves();
  update.bytes.fit(update.commit.stream_bytes);
  SPARCL_ASSIGN_OR_RETURN(const Digest256 root, root_of(update.leaves));
  update.commit.stream_digest = root;
  if (key)
    update.signature = CommitSignature{key->public_key(), key->sign(serialise(update.commit))};
  return {};
}

UpdateRef Issuer::reissue(const UpdateRef& update) const {
  if (update == nullptr || update->commit.epoch == epoch) return update;
  auto again = std::make_shared<Update>(*update);  // it shares the bytes
  again->commit.epoch = epoch;
  if (key)
    again->signature = CommitSignature{key->public_key(), key->sign(serialise(again->commit))};
  return again;
}

}  // namespace sparcl::replication
