#pragma once
// The one prologue of all collectives: is the communicator sound, do all ranks make the same call,
// does a rank refuse. Then the collective's own part runs on all ranks, or on none.

#include <cstdint>
#include <memory>

#include "src/comm/agreement/agreement.hpp"
#include "src/comm/comm_context.hpp"

namespace sparcl::comm {

// What this rank brings to the agreement.
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

  // Before the agreement. A rank that cannot go on says so in its terms: the others wait for it.
  virtual CallTerms terms() = 0;
  // While the agreement runs: a bounded piece of work, of which no other rank hears.
  virtual Ahead work_ahead() noexcept { return Ahead::kDone; }
  // After it, if all ranks agree. extents: of all ranks.
  virtual Task run(const Extents& extents) = 0;
  // Lanes of the call's channel, the agreement's included: they are closed when the call is over.
  virtual std::uint8_t lanes() const = 0;
  // Of a call between the ranks' GPUs: an error that these have found poisons the communicator.
  virtual DeviceCalls* gpus() const { return nullptr; }
};

// number: the call's position in the communicator's order. The result is the call's: the same on
// all ranks, unless the communicator is poisoned.
Task agreed_call(const CommContext& comm, std::uint32_t number, std::unique_ptr<CallBody> body,
                 CallReport& report);

}  // namespace sparcl::comm
