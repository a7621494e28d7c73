#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/model/files/delta_maker.hpp"

namespace sparcl::model {

struct ComposeReport {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;  // without a base: at most
  std::uint64_t bytes = 0;
  std::uint64_t input_bytes = 0;
  Hash128 base_hash;
  Hash128 target_hash;
};

// Composes consecutive deltas into one at out_path, completely or not at all. The base of each is
// the target of the one before. No state is ever in memory; Unsupported if one is needed. Refusals:
// Corrupt, WrongBase, Mismatch.
Result<ComposeReport> compose_deltas(std::span<const std::string> paths,
                                     const std::string& out_path, const FileWatch& watch = {});

// The same on the checkpoint that the first is for: all deltas are applied in memory, and the
// result is compared with the base.
Result<ComposeReport> compose_deltas_on(const std::string& base_path,
                                        std::span<const std::string> paths,
                                        const std::string& out_path, const FileWatch& watch = {});

// Writes the delta that leads from the target of `delta` back to its base.
Result<DiffReport> invert_delta(const std::string& base_path, const Delta& delta,
                                const std::string& out_path, const FileWatch& watch = {});

}  // namespace sparcl::model
