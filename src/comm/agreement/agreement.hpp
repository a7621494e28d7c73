#pragma once
// The round in which all ranks learn whether all made the same call and whether any rank refuses,
// without a root.
//
// Dissemination (Hensgen, Finkel, Manber 1988): in step t, rank r sends to r + 2^t and receives
// from r - 2^t. It takes ceil(log2 P) steps of one message of 288 bytes. Minimum and maximum are
// idempotent, so any P works. Cost: ceil(log2 P) alpha.

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/comm/engine/call_fingerprint.hpp"
#include "src/comm/engine/engine.hpp"

namespace sparcl::comm {

constexpr std::uint8_t kAgreementLane = 0;  // of each call's channel

// The subject of a call, for the text of a Mismatch. All ranks of a call give a sketch, or none
// does. Used only while the round runs.
struct Subject {
  std::span<const std::byte>
      sketch;  // at most kSketchBytes; it is sent, and the call's descriptor reads it
  const void* own = nullptr;  // further data of this rank that the descriptor needs to describe it
};

// Values that may differ between ranks, and that all must know: the extremes over all ranks. Sent
// as it is: no padding.
struct Extents {
  std::uint64_t max_entries = 0;
  std::uint64_t min_capacity = UINT64_MAX;
  std::uint32_t min_scratch_mib = UINT32_MAX;  // that a call may take
  std::uint16_t has_duplicates = 0;            // 1: on some rank
  std::uint16_t union_share = 0;               // of kWholeUnion: see LearnedUnion
  std::int32_t min_capacity_rank = INT32_MAX;  // the lowest rank that has it; agree() sets it
  std::uint16_t has_device_arrays = 0;         // 1: kernels of some rank read and write its arrays
  std::uint16_t sends_dense = 0;               // 1: the root sends its arrays as they are
};

// One round on `channel`. `mine`: this rank's refusal, or success. `verdict` is the same on all
// ranks up to its text: success, Mismatch, or the error of the first rank that refuses. The first
// is counted from `first` on, which is the same on all ranks; the fingerprint of a refusing rank
// does not count. extents: this rank's, then those of all; nullptr: none. The task's own result is
// an error only if the communicator is poisoned.
Task agree(Engine& engine, transport::Channel channel, CallFingerprint fingerprint, Status mine,
           Status& verdict, Subject subject = {}, int first = 0, Extents* extents = nullptr);

}  // namespace sparcl::comm
