#pragma once
// Where to cut the changes so that the k largest are sent, or what fits a number of bytes.

#include <cstdint>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
#include "src/codec/change_rule.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// What an encoder would be given, with the sources of its options. options.rule: what it leaves out
// is left out here, too.
struct EncodeInput {
  const BlockMap& map;
  std::span<const std::byte* const> base;  // whole: every array has one
  std::span<const std::byte* const> target;
  const EncodeOptions& options;
  const kernels::KernelSet& kernels;
};

// The k largest changes of the whole update, exactly; ties to the lower element. One diff, O(k)
// memory.
Result<ChangeCut> cut_to_count(const EncodeInput& input, std::uint64_t k);

// The largest changes, as many as an update of at most `bytes` holds (all its headers included):
// the order is by size in steps of 1/16 octave, inside a step by element. Tries encodings until one
// uses 98 % of the bytes, at most ten; the cost is that of one diff and of these. InvalidArgument
// names the least that is possible if even an update without changes is larger.
Result<ChangeCut> cut_to_bytes(const EncodeInput& input, std::uint64_t bytes);

}  // namespace sparcl::codec
