#pragma once
// The contract of a collective engine: dense collectives between the GPUs of all ranks, in the
// order of a stream. It carries no messages: sizes, refusals and errors are sent by the
// communicator's transport (transport.hpp).
//
// - Calls are enqueued, and wait for no peer's GPU. All ranks make the same calls in the same
//   order.
// - Arrays are device memory of this rank's GPU, and belong to the stream until the call has
//   completed there. A call on a stream that is being captured becomes part of the graph.
// - A call that fails here may leave peers waiting in theirs. The communicator is then poisoned,
//   and abort() lets this rank's streams end.
// - One thread at a time.

#include <cstdint>
#include <functional>

#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::transport {

enum class EngineOp : std::uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kMean = 4
};  // numbered as sparclRedOp_t

class CollectiveEngine {
 public:
  virtual ~CollectiveEngine() = default;
  virtual const char* name() const = 0;
  virtual bool reduces(DataType type) const = 0;

  // send may be receive. All ranks get the same bits.
  virtual Status all_reduce(const void* send, void* receive, std::uint64_t count, DataType type,
                            EngineOp op, void* stream) = 0;
  // On the root `array` is only read.
  virtual Status broadcast(void* array, std::uint64_t bytes, int root, void* stream) = 0;
  // receive: `bytes` of each rank, in the order of ranks. send may be this rank's slot in it.
  virtual Status all_gather(const void* send, void* receive, std::uint64_t bytes, void* stream) = 0;
  // `bytes` are cut into a piece for each rank; the last pieces are shorter or empty. Rank r gets
  // piece r of every rank, in the order of ranks, piece_bytes apart. `bytes` is the same on all
  // ranks; the arrays do not overlap.
  virtual Status all_to_all(const void* send, std::uint64_t bytes, std::uint64_t piece_bytes,
                            void* receive, void* stream) = 0;

  // Called again and again while one of these calls takes long on the host; its error ends the
  // call.
  virtual void set_watch(std::function<Status()> watch) = 0;

  // Any failure since the start. Failures of work in streams are reported late.
  virtual Status health() = 0;
  // Ends the work that streams hold, in any state; later calls fail. Works without the peers.
  // False: it cannot, because the caller owns the communicator.
  virtual bool abort() = 0;
};

}  // namespace sparcl::transport
