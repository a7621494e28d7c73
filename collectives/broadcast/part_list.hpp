#pragma once
// The parts of a call's object (a model's tensors) in a few bytes, so that ranks whose calls differ
// can say where.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "collectives/collective.hpp"

namespace sparcl::collectives::broadcast {

// Hashes of the list's first 1, 2, 3, 4, 6, 8, 12 ... 1024 parts, and of all. The first hash that
// differs shows where two lists differ, to within a third of the distance from the front. Most
// differences are near the front, or everywhere.
struct PartsSketch {
  std::array<std::uint32_t, 21> prefixes{};
};

// Reads bytes from the wire, which may be any.
PartsSketch sketch_in(std::span<const std::byte> bytes);

// One hash a part. Lists that differ have sketches that differ, except for a chance of 2^-32 at
// each prefix.
PartsSketch sketch_of(std::span<const std::uint64_t> part_hashes);

struct PartRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;  // UINT64_MAX: open
};

// The range of the first part that differs; nothing if the lists are equal.
std::optional<PartRange> first_difference(const PartsSketch& a, const PartsSketch& b);

// A rank's own list, and how it names a part in a message.
struct PartList {
  PartsSketch sketch;
  std::uint64_t count = 0;
  std::function<std::string(std::uint64_t part)> name;

  // "tensor 3, here 'layer.bias'"; "a tensor from 7 to 8, here 'a' to 'b'"; "tensor 3, which is not
  // here".
  std::string describe(const PartRange& range) const;

  // The subject of a call on these parts; an empty one if parts is nullptr.
  static comm::Subject subject(const PartList* parts) {
    if (parts == nullptr) return {};
    return {std::as_bytes(std::span(&parts->sketch, 1)), parts};
  }
};

}  // namespace sparcl::collectives::broadcast
