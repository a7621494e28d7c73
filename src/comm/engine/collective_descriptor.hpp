#pragma once
// The properties of one collective: one constant, in the collective's folder. Texts derive their
// names from it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/engine/call_fingerprint.hpp"

namespace sparcl::comm {

constexpr std::size_t kSketchBytes = 86;  // of a call's subject: see Subject

// Two calls that differ, as received: the bits are not trusted.
struct CallPair {
  const CallFingerprint& lower;
  const CallFingerprint& upper;
  std::span<const std::byte> lower_sketch, upper_sketch;  // kSketchBytes each
  const void* own = nullptr;                              // this rank's: see Subject
};

// "masks (seed)", and the text of each call besides its arguments: ", mask: random, density 0.1".
struct CallDifference {
  std::string what, lower, upper;
};

// The algorithms that one setting chooses from. Several collectives may share it.
struct AlgorithmChoice {
  std::string_view setting;                  // "ALGO_BROADCAST"
  std::string_view meaning;                  // for `sparcl info` and docs/reference/settings.md
  std::vector<std::string_view> (*names)();  // of the rows, without "auto"
};

// Tables of algorithms are arrays of rows with a name. A fingerprint counts a forced row from 1,
// and has 0 if none is forced.
template <class Rows>
std::uint8_t forced_row(const Rows& rows, std::string_view name) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (name == rows[i].name) return static_cast<std::uint8_t>(i + 1);
  }
  return 0;
}

// The reverse. The number comes from the wire and may be any.
template <class Rows>
std::string_view forced_name(const Rows& rows, std::uint8_t row) {
  if (row == 0) return "auto";
  return row <= rows.size() ? std::string_view(rows[row - 1U].name) : "unknown";
}

template <class Rows>
std::vector<std::string_view> row_names(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

struct CollectiveDescriptor {
  CallKind kind{};
  std::string_view name;  // of the C function: a literal
  bool has_root = false;  // else it has a reduction
  // The source and the name of the algorithm, by the fingerprint's `algorithm`, which may be any
  // number.
  const AlgorithmChoice& (*choice)(std::uint8_t algorithm) = nullptr;
  std::string_view (*algorithm)(std::uint8_t algorithm) = nullptr;
  // Optional. The difference between the subjects of two calls: "tensors (names, types, shapes or
  // order), first in tensor 3"; empty: none.
  std::string (*subject)(const CallPair& calls) = nullptr;
  // Optional. For calls whose fingerprints differ in `detail`; without it: "options".
  CallDifference (*detail)(const CallPair& calls) = nullptr;
  // Optional. The location of the arrays of `call`, if it differs from that of `other`: ", arrays
  // in device memory". Else empty, and the algorithms are named.
  std::string (*location)(const CallFingerprint& call, const CallFingerprint& other) = nullptr;
};

// A `location`: kDeviceAlgorithm says that the ranks' GPUs sum their arrays.
std::string location_of_arrays(const CallFingerprint& call, const CallFingerprint& other);
// The text of that, if one call sums between GPUs and the other does not; else empty.
std::string location_text(bool is_between_gpus, bool other_is_between_gpus);

// "AllReduceTopK": the name without the library's, for the flight record and for profilers.
const char* shown_name(const CollectiveDescriptor& collective);

using CollectiveTable = std::span<const CollectiveDescriptor* const>;

// nullptr: there is none.
const CollectiveDescriptor* find_collective(CollectiveTable table, std::uint32_t operation);

// "sum", as sparclRedOp_t numbers them.
std::string_view reduction_name(std::uint8_t reduction);

}  // namespace sparcl::comm
