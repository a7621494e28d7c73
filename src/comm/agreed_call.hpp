#pragma once
// The one prologue of all collectives. It checks that the communicator is usable, that all ranks
// make the same call, and that no rank refuses. The collective's own part then runs on all ranks,
// or on none.

#include <cstdint>
#include <memory>

#include "src/comm/agreement/agreement.hpp"
#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

// This rank's input to the agreement.
struct CallTerms {
  CallFingerprint fingerprint;
  Status refusal;  // of this rank
  Subject subject;
  Extents extents;
};

enum class Ahead : std::uint8_t { kWorked, kWaits, kDone };

// A collective's own part of one call.
class CallBody {
 public:
  virtual ~CallBody() = default;

  // Called before the agreement. A rank that cannot continue says so in its terms, because the
  // other ranks wait for it.
  virtual CallTerms terms() = 0;
  // Called while the agreement runs: a bounded piece of work, of which no other rank learns.
  virtual Ahead work_ahead() noexcept { return Ahead::kDone; }
  // Called after the agreement, if all ranks agree. extents: of all ranks.
  virtual Task run(const Extents& extents) = 0;
  // The number of lanes of the call's channel, the agreement's included: they are closed when the
  // call has ended.
  virtual std::uint8_t lanes() const = 0;
  // For a call between the ranks' GPUs: an error that the GPUs have found poisons the communicator.
  virtual DeviceCalls* gpus() const { return nullptr; }
};

// number: the call's position in the communicator's order. The result is the call's: the same on
// all ranks, unless the communicator is poisoned.
Task agreed_call(const CommContext& comm, std::uint32_t number, std::unique_ptr<CallBody> body,
                 CallReport& report);

}  // namespace sparcl::comm
