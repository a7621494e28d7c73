#include "src/store/update_coding.hpp"

#include "src/codec/staging_sink.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{16} << 20;

}  // namespace

std::vector<const std::byte*> readable(std::span<std::byte* const> arrays) {
  return {arrays.begin(), arrays.end()};
}

codec::EncodeOptions encode_options(const ChainState& state, const model::HeldVersion& base,
                                    std::uint64_t version) {
  codec::EncodeOptions options;
  options.base_version = base.version;
  if (base.version != 0) options.base_hash = base.hash;
  options.target_version = version;
  options.schema_hash = state.schema_hash;
  options.with_state_hash = true;
  options.target_source = state.source;
  options.workers = state.workers;
  return options;
}

Status run_encoder(codec::UpdateEncoder& encoder, const ChainState& state, CodedUpdate& update) {
  codec::StagingSink sink(update.bytes);
  while (!encoder.finished()) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, sink));
    if (state.source != nullptr) SPARCL_RETURN_IF_ERROR(state.source->status());
  }
  update.byte_count = sink.written_bytes();
  update.target_hash = encoder.stats().target_hash;
  return {};
}

Result<CodedUpdate> code_update(const ChainState& state, std::span<const std::byte* const> base,
                                std::span<const std::byte* const> target,
                                const codec::EncodeOptions& options) {
  CodedUpdate update;
  codec::UpdateEncoder encoder(*state.map, base, target, options, *state.kernels);
  SPARCL_RETURN_IF_ERROR(run_encoder(encoder, state, update));
  return update;
}

}  // namespace sparcl::store
