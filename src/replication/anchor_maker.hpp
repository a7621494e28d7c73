#pragma once
// Codes all bytes of a version piece by piece, beside the serving of replicas.

#include <memory>

#include "src/codec/staging_sink.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/stream_digest.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class AnchorMaker {
 public:
  // `arrays` hold the version until the end.
  AnchorMaker(const ReplicatedState& state, std::span<std::byte* const> arrays, Commit commit, bool is_signed);

  // Some milliseconds of work. True when it is whole.
  Result<bool> step();
  // Then once: the update, not signed yet.
  std::shared_ptr<Update> take();
  StreamDigest& digest() { return digest_; }

 private:
  std::shared_ptr<Update> update_ = std::make_shared<Update>();
  codec::StagingSink sink_;
  StreamDigest digest_;
  bool is_signed_;
  std::vector<const std::byte*> base_;
  std::vector<const std::byte*> target_;
  std::unique_ptr<codec::UpdateEncoder> encoder_;
};

}  // namespace sparcl::replication
