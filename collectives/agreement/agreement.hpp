#pragma once
// The round in which all ranks learn whether all made the same call and whether anybody refuses, without a root.
//
// Dissemination (Hensgen, Finkel, Manber 1988): in step t, rank r sends to r + 2^t and hears from r - 2^t; ceil(log2 P) steps of
// one message of 288 bytes. Minimum and maximum are idempotent, so any P works. Cost: ceil(log2 P) alpha.

#include <compare>
#include <cstdint>

#include "collectives/agreement/part_list.hpp"
#include "collectives/engine/engine.hpp"
#include "collectives/mask/mask_sketch.hpp"

namespace sparcl::collectives {

constexpr std::uint8_t kAgreementLane = 0;  // of each call's channel

// What every rank must have called alike, in the order in which a difference is reported.
struct CallFingerprint {
  std::uint32_t operation = 0;  // an Operation below
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t detail = 0;  // hash of whatever else must agree: schema, mask, options
  std::uint32_t datatype = 0;
  // Settings that must be alike, else fragments would not match; in the clear, so that a message can name them.
  std::uint8_t algorithm = 0;      // row of the operation's table
  std::uint8_t verify = 0;         // a codec::Verify
  std::uint8_t fragment_log2 = 0;  // of the bytes of a fragment
  std::uint8_t reduction = 0;      // a kernels::ReduceOp, or kMeanReduction
  friend auto operator<=>(const CallFingerprint&, const CallFingerprint&) = default;
};

constexpr std::uint8_t kDeviceAlgorithm = 255;    // arrays are in device memory, and ranks sum between GPUs
constexpr std::uint8_t kCanonicalOnDevice = 240;  // of masked sums: the same, canonical; the row that is forced is added

constexpr std::uint8_t kMeanReduction = 4;  // after the last ReduceOp, as sparclRedOp_t numbers it

enum class CallKind : std::uint32_t {
  kBroadcastDelta = 1,
  kBroadcastUpdate = 2,
  kBroadcastSparse = 3,
  kAllReduceMasked = 4,
  kAllReduceSparse = 5,
  kAllReduceTopK = 6
};

// What a call is about, for the text of a Mismatch: on all ranks of a call the same of these, or none. Only while the round runs.
struct Subject {
  const PartList* parts = nullptr;   // of an update: the first part that differs is named
  const MaskSketch* mask = nullptr;  // both masks are described
};

// What ranks may give differently, and all must know: the extremes over all ranks.
// It travels as it is: no padding.
struct Extents {
  std::uint64_t most_entries = 0;
  std::uint64_t least_capacity = UINT64_MAX;
  std::uint32_t least_scratch_mib = UINT32_MAX;  // that a call may take
  std::uint16_t has_duplicates = 0;              // 1: on some rank
  std::uint16_t union_share = 0;                 // of kWholeUnion: see LearnedUnion
  std::int32_t least_capacity_rank = INT32_MAX;  // the lowest rank that has it; agree() says so
  std::uint32_t has_device_arrays = 0;           // 1: some rank's are read and written by kernels
};

// One round on `channel`. `mine`: this rank's refusal, or success. On return `verdict` is the same on all ranks up to its text:
// success, Mismatch, or the error of the first rank that refuses, counted from `first` on, which is the same on all ranks (a
// refusing rank's fingerprint does not count). extents: this rank's, then those of all; nullptr: none. The task's own result is an
// error only if the comm is poisoned.
Task agree(Engine& engine, Channel channel, CallFingerprint fingerprint, Status mine, Status& verdict, Subject subject = {},
           int first = 0, Extents* extents = nullptr);

}  // namespace sparcl::collectives
