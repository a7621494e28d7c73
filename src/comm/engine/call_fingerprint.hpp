#pragma once
// What every rank of a collective call must have passed alike.

#include <compare>
#include <cstdint>

namespace sparcl::comm {

// What every rank must have called alike, in the order in which a difference is reported.
struct CallFingerprint {
  std::uint32_t operation = 0;  // a CallKind
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t detail = 0;  // hash of whatever else must agree: schema, mask, options
  std::uint32_t datatype = 0;
  // Settings that must be alike, else fragments would not match; in the clear, so that a message
  // can name them.
  std::uint8_t algorithm = 0;      // row of the operation's table
  std::uint8_t verify = 0;         // a codec::Verify
  std::uint8_t fragment_log2 = 0;  // of the bytes of a fragment
  std::uint8_t reduction = 0;      // a kernels::ReduceOp, or kMeanReduction
  friend auto operator<=>(const CallFingerprint&, const CallFingerprint&) = default;
};

constexpr std::uint8_t kDeviceAlgorithm =
    255;  // arrays are in device memory, and ranks sum between GPUs
constexpr std::uint8_t kCanonicalOnDevice =
    240;  // of masked sums: the same, canonical; the row that is forced is added

constexpr std::uint8_t kMeanReduction = 4;  // after the last ReduceOp, as sparclRedOp_t numbers it

enum class CallKind : std::uint32_t {
  kBroadcastDelta = 1,
  kBroadcastUpdate = 2,
  kBroadcastSparse = 3,
  kAllReduceMasked = 4,
  kAllReduceSparse = 5,
  kAllReduceTopK = 6
};

}  // namespace sparcl::comm
