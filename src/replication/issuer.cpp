#include "src/replication/issuer.hpp"

namespace sparcl::replication {

trust::Signatures Issuer::sign(std::span<const std::byte> message) const {
  const trust::SigningKeysRef by = keys.load();
  return by == nullptr ? trust::Signatures() : by->sign(message);
}

Status Issuer::seal(Update& update, StreamDigest& digested) const {
  SPARCL_RETURN_IF_ERROR(digested.finish(update.bytes, update.commit.stream_bytes));
  update.leaves = digested.take_leaves();
  update.bytes.fit(update.commit.stream_bytes);
  SPARCL_ASSIGN_OR_RETURN(const Digest256 root, root_of(update.leaves));
  update.commit.stream_digest = root;
  update.signatures = sign(serialise(update.commit));
  return {};
}

UpdateRef Issuer::reissue(const UpdateRef& update) const {
  if (update == nullptr) return update;
  const trust::SigningKeysRef by = keys.load();
  const bool is_signed = by == nullptr ? update->signatures.empty() : by->made(update->signatures);
  if (update->commit.epoch == epoch && is_signed) return update;
  auto again = std::make_shared<Update>(*update);  // it shares the bytes
  again->commit.epoch = epoch;
  again->signatures = sign(serialise(again->commit));
  return again;
}

}  // namespace sparcl::replication
