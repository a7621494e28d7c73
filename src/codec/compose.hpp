#pragma once
// Composes several consecutive updates into one, block by block. The states between them, and the
// base, are never in memory.

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "src/codec/update.hpp"
#include "src/codec/update_reader.hpp"

namespace sparcl::codec {

struct ComposeStats {
  std::uint64_t coded_elements = 0;
  std::uint64_t encoded_bytes = 0;
};

// Checks whether updates can be composed without a base. Each update's base must be the target of
// the update before it. WrongBase, with the names of the two, if their hashes differ. Unsupported
// if a base is needed: an update without state hashes or runs of arrays, or of another list of
// tensors. compose_updates() finds blocks that can only be read with their old values.
Status check_chain(std::span<const UpdateReader> updates, std::span<const std::string> names);

// Errors as above. The result has state hashes and no digests of values
// (docs/reference/wire-format.md). attachment: sent with the update. Memory: one block. progress:
// called with the number of blocks that are done; its error ends the work.
using ComposeProgress = std::function<Status(std::uint64_t done_blocks, std::uint64_t blocks)>;
Result<ComposeStats> compose_updates(std::span<UpdateReader> updates,
                                     std::span<const std::string> names,
                                     std::span<const std::byte> attachment,
                                     const kernels::KernelSet& kernels, ByteSink& sink,
                                     const ComposeProgress& progress = {});

}  // namespace sparcl::codec
