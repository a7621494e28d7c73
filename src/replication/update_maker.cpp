#include "src/replication/update_maker.hpp"

#include <utility>

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{1} << 20;  // about a millisecond; heuristic

}  // namespace

UpdateMaker::UpdateMaker(const ReplicatedState& state, Arrays target,
                         std::shared_ptr<const codec::ArraySource> base, Commit commit)
    : sink_(update_->bytes),
      target_(std::move(target)),
      base_(std::move(base)),
      none_(target_.pointers.size(), nullptr) {
  commit.is_anchor = base_ == nullptr;
  codec::EncodeOptions options;
  if (base_ != nullptr) options.base_hash = commit.base_hash;
  options.base_source = base_.get();
  options.allow_classes = base_ != nullptr;
  begin(state, std::move(commit), options);
}

UpdateMaker::UpdateMaker(const ReplicatedState& state, Arrays target,
                         std::vector<std::uint64_t> blocks, Commit commit)
    : sink_(update_->bytes),
      target_(std::move(target)),
      blocks_(std::move(blocks)),
      none_(target_.pointers.size(), nullptr) {
  codec::EncodeOptions options;
  options.only_blocks = blocks_;
  options.base_hash = commit.base_hash;
  options.target_hash = commit.target_hash;
  begin(state, std::move(commit), options);
}

void UpdateMaker::begin(const ReplicatedState& state, Commit commit, codec::EncodeOptions options) {
  update_->commit = std::move(commit);
  options.base_version = update_->commit.base_version;
  options.target_version = update_->commit.version;
  options.schema_hash = state.schema_hash;
  options.with_state_hash = true;
  options.target_source = target_.source.get();
  options.workers = nullptr;  // peers cause this work: it has one core, and short steps
  encoder_ = std::make_unique<codec::UpdateEncoder>(*state.map, none_, target_.pointers, options,
                                                    *state.kernels);
}

Result<bool> UpdateMaker::step() {
  SPARCL_RETURN_IF_ERROR(encoder_->step(kStepElements, sink_));
  if (has_digest_) SPARCL_RETURN_IF_ERROR(digest_.advance(update_->bytes, sink_.written_bytes()));
  return encoder_->finished();
}

std::shared_ptr<Update> UpdateMaker::take() {
  Commit& commit = update_->commit;
  commit.elements = encoder_->stats().elements;
  commit.changed = encoder_->stats().changed;
  commit.stream_bytes = sink_.written_bytes();
  commit.target_hash = encoder_->stats().target_hash;
  if (charge_ != nullptr) charge_->set(commit.stream_bytes);
  return std::move(update_);
}

}  // namespace sparcl::replication
