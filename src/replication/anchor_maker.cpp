#include "src/replication/anchor_maker.hpp"

#include <utility>

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{4} << 20;  // some milliseconds; heuristic

}  // namespace

AnchorMaker::AnchorMaker(const ReplicatedState& state, std::span<std::byte* const> arrays, Commit commit, bool is_signed)
    : sink_(update_->bytes), is_signed_(is_signed), base_(arrays.size(), nullptr), target_(arrays.begin(), arrays.end()) {
  commit.is_anchor = true;
  commit.base_version = 0;
  commit.base_hash = {};
  update_->commit = std::move(commit);
  codec::EncodeOptions options;
  options.target_version = update_->commit.version;
  options.schema_hash = state.schema_hash;
  options.with_state_hash = true;
  options.workers = state.workers;
  encoder_ = std::make_unique<codec::UpdateEncoder>(*state.map, base_, target_, options, *state.kernels);
}

Result<bool> AnchorMaker::step() {
  SPARCL_RETURN_IF_ERROR(encoder_->step(kStepElements, sink_));
  if (is_signed_) digest_.advance(update_->bytes, sink_.written_bytes());
  return encoder_->finished();
}

std::shared_ptr<Update> AnchorMaker::take() {
  Commit& commit = update_->commit;
  commit.elements = commit.changed = encoder_->stats().elements;
  commit.stream_bytes = sink_.written_bytes();
  commit.target_hash = encoder_->stats().target_hash;
  return std::move(update_);
}

}  // namespace sparcl::replication
