#pragma once
// Codes whole updates of a chain's state.

#include <vector>

#include "src/base/staging.hpp"
#include "src/codec/update.hpp"
#include "src/model/version_update.hpp"
#include "src/store/chain_state.hpp"

namespace sparcl::store {

struct CodedUpdate {
  Staging bytes;
  std::uint64_t byte_count = 0;
  Hash128 target_hash;
};

std::vector<const std::byte*> readable(std::span<std::byte* const> arrays);

// base: version 0 for an anchor.
codec::EncodeOptions encode_options(const ChainState& state, const model::HeldVersion& base,
                                    std::uint64_t version);

// Runs the encoder to its end. Its stats() then say the rest.
Status run_encoder(codec::UpdateEncoder& encoder, const ChainState& state, CodedUpdate& update);
Result<CodedUpdate> code_update(const ChainState& state, std::span<const std::byte* const> base,
                                std::span<const std::byte* const> target,
                                const codec::EncodeOptions& options);

}  // namespace sparcl::store
