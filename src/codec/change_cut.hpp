#pragma once
// Finds the cut between changes so that the k largest are sent, or those that fit a number of
// bytes.

#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
#include "src/codec/change_rule.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// The arguments of an encoder, with the sources of its options. Changes that options.rule leaves
// out are left out here, too.
struct EncodeInput {
  const BlockMap& map;
  std::span<const std::byte* const> base;  // whole: every array has a base
  std::span<const std::byte* const> target;
  const EncodeOptions& options;
  const kernels::KernelSet& kernels;
};

// The k largest changes of the whole update, exactly; ties to the lower element. One diff, O(k)
// memory.
Result<ChangeCut> cut_to_count(const EncodeInput& input, std::uint64_t k);

// The largest changes, as many as an update of at most `bytes` holds (all its headers included).
// They are ordered by size in steps of 1/16 octave, inside a step by element. Encodes at most ten
// times until an update uses 98 % of the bytes; the cost is one diff and these encodings. If even
// an update without changes is larger, InvalidArgument names the least possible size.
Result<ChangeCut> cut_to_bytes(const EncodeInput& input, std::uint64_t bytes);

}  // namespace sparcl::codec
