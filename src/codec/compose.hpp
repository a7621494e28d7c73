#pragma once
// Several updates that follow each other as one, block by block: the states between, and the state
// before, are never there.

#include <cstdint>
#include <span>
#include <string>

#include "src/codec/update.hpp"
#include "src/codec/update_reader.hpp"

namespace sparcl::codec {

struct ComposeStats {
  std::uint64_t coded_elements = 0;
  std::uint64_t encoded_bytes = 0;
};

// Can they be composed without a base? Each update's base is the target of the one before it:
// WrongBase, with the names of the two, if their hashes say otherwise. Unsupported where a base is
// needed: an update without state hashes or runs of arrays, of another list of tensors, or with a
// block that can only be read with its old values (compose_updates() finds that).
Status check_chain(std::span<const UpdateReader> updates, std::span<const std::string> names);

// Errors as above. The result carries state hashes and no digests of values
// (docs/reference/wire-format.md); attachment: what travels with it. Memory: one block.
Result<ComposeStats> compose_updates(std::span<UpdateReader> updates,
                                     std::span<const std::string> names,
                                     std::span<const std::byte> attachment,
                                     const kernels::KernelSet& kernels, ByteSink& sink);

}  // namespace sparcl::codec
