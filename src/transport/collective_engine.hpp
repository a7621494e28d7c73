#pragma once
// The contract of a collective engine: dense collectives between the GPUs of all ranks, in the
// order of a stream. It is no messenger: sizes, refusals and errors ride the comm's own
// (transport.hpp).
//
// - Calls enqueue, and wait for no peer's GPU; all ranks make the same ones in the same order.
// Arrays are device memory of this
//   rank's GPU, and belong to the stream until it is through. A call on a stream that is being
//   captured becomes part of the graph.
// - A call that fails here may leave peers waiting on theirs: the comm is over, and abort() lets
// this rank's streams end.
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

  // send may be receive. The same bits on every rank.
  virtual Status all_reduce(const void* send, void* receive, std::uint64_t count, DataType type,
                            EngineOp op, void* stream) = 0;
  // On the root `array` is only read.
  virtual Status broadcast(void* array, std::uint64_t bytes, int root, void* stream) = 0;
  // receive: `bytes` of each rank, in their order. send may be this rank's place there.
  virtual Status all_gather(const void* send, void* receive, std::uint64_t bytes, void* stream) = 0;
  // `bytes` are cut in a piece for each rank, the last ones shorter or empty: each rank gets all
  // ranks' pieces of its number, in their order, piece_bytes apart. `bytes` is the same on all
  // ranks; the arrays do not overlap.
  virtual Status all_to_all(const void* send, std::uint64_t bytes, std::uint64_t piece_bytes,
                            void* receive, void* stream) = 0;

  // Asked again and again while one of these calls takes long on the host; its error ends the call.
  virtual void set_watch(std::function<Status()> watch) = 0;

  // What has failed since; of work that streams hold it is told late.
  virtual Status health() = 0;
  // What streams hold of it ends, in whatever state; later calls fail. Works without the peers.
  // False: it cannot, as it is the caller's to end.
  virtual bool abort() = 0;
};

}  // namespace sparcl::transport
