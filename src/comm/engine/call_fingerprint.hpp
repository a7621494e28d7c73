#pragma once
// Arguments that every rank of a collective call must pass alike.

#include <compare>
#include <cstdint>

namespace sparcl::comm {

// Compared between ranks in this order; the first difference is reported.
struct CallFingerprint {
  std::uint32_t operation = 0;  // a CallKind
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t detail = 0;  // hash of all else that must agree: schema, mask, options
  std::uint32_t datatype = 0;
  // Settings that must be equal, or fragments would not match. They are not hashed, so that a
  // message can name them.
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
  kAllReduceTopK = 6,
  kAggregate = 7,
  kSubscriberNextGroup = 8
};

}  // namespace sparcl::comm
