#pragma once
// What sets one collective apart from the others: one constant, in the collective's folder. Texts
// derive their names from it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/engine/call_fingerprint.hpp"

namespace sparcl::comm {

constexpr std::size_t kSketchBytes = 86;  // of a call's subject: see Subject

// Two calls that differ, as they came over the wire: any bits may stand there.
struct CallPair {
  const CallFingerprint& least;
  const CallFingerprint& most;
  std::span<const std::byte> min_sketch, max_sketch;  // kSketchBytes each
  const void* own = nullptr;                          // of this rank: see Subject
};

// "masks (seed)", and what the text says of each call besides its arguments: ", mask: random,
// density 0.1".
struct CallDifference {
  std::string what, least, most;
};

// The algorithms that one setting chooses from. Collectives may share it.
struct AlgorithmChoice {
  std::string_view setting;                  // "ALGO_BROADCAST"
  std::string_view meaning;                  // for `sparcl info` and docs/settings.md
  std::vector<std::string_view> (*names)();  // of the rows, without "auto"
};

struct CollectiveDescriptor {
  CallKind kind{};
  std::string_view name;  // of the C function
  bool has_root = false;  // else it has a reduction
  // Where the algorithm comes from, and its name, by the fingerprint's `algorithm`: any number may
  // stand there.
  const AlgorithmChoice& (*choice)(std::uint8_t algorithm) = nullptr;
  std::string_view (*algorithm)(std::uint8_t algorithm) = nullptr;
  // Optional. Where the subjects of two calls differ: "tensors (names, types, shapes or order),
  // first in tensor 3"; empty: nowhere.
  std::string (*subject)(const CallPair& calls) = nullptr;
  // Optional. Calls whose fingerprints differ in `detail`; without it: "options".
  CallDifference (*detail)(const CallPair& calls) = nullptr;
  // Optional. Of `call`, where it and `other` differ in `algorithm` by more than its name: ",
  // arrays in device memory"; else empty.
  std::string (*location)(const CallFingerprint& call, const CallFingerprint& other) = nullptr;
};

// The same of calls whose arrays are in device memory where their algorithm is kDeviceAlgorithm.
std::string location_of_arrays(const CallFingerprint& call, const CallFingerprint& other);

using CollectiveTable = std::span<const CollectiveDescriptor* const>;

// nullptr: there is none.
const CollectiveDescriptor* find_collective(CollectiveTable table, std::uint32_t operation);

// "sum", as sparclRedOp_t numbers them.
std::string_view reduction_name(std::uint8_t reduction);

}  // namespace sparcl::comm
