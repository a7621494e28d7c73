#pragma once
// Codes an update to the newest version piece by piece, beside the serving of replicas: an anchor, or one that is composed of
// several.

#include <memory>

#include "src/codec/staging_sink.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/stream_digest.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class UpdateMaker {
 public:
  // `arrays` hold the version until the end. commit: of it all but what the coding tells. base: all arrays of the version that
  // commit names as such; nullptr: an anchor.
  UpdateMaker(const ReplicatedState& state, std::span<std::byte* const> arrays, Commit commit,
              std::unique_ptr<const codec::ArraySource> base, bool is_signed);

  // Some milliseconds of work. True when it is whole.
  Result<bool> step();
  // Then once: the update, not signed yet.
  std::shared_ptr<Update> take();
  StreamDigest& digest() { return digest_; }
  const Commit& commit() const { return update_->commit; }

 private:
  std::shared_ptr<Update> update_ = std::make_shared<Update>();
  codec::StagingSink sink_;
  StreamDigest digest_;
  bool is_signed_;
  std::unique_ptr<const codec::ArraySource> base_;
  std::vector<const std::byte*> none_;
  std::vector<const std::byte*> target_;
  std::unique_ptr<codec::UpdateEncoder> encoder_;
};

}  // namespace sparcl::replication
