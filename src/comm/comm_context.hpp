#pragma once
// A communicator's input to each of its calls, and the results that a call leaves behind.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/kernel_set.hpp"
#include "src/base/buffer_pool.hpp"
#include "src/base/data_type.hpp"
#include "src/base/determinism.hpp"
#include "src/base/worker_pool.hpp"
#include "src/codec/update.hpp"
#include "src/comm/cost_model.hpp"
#include "src/comm/engine/engine.hpp"
#include "src/comm/node_map.hpp"
#include "src/comm/place.hpp"
#include "src/comm/sum_shape.hpp"
#include "src/transport/node_window.hpp"

namespace sparcl::comm {

class DeviceCalls;

struct Traffic {
  std::uint64_t stream_bytes = 0;  // of the whole stream, where there is one
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  double produce_seconds = 0;
  bool has_widened = false;  // some values that 8 bits hold were sent, or lent, as float32
};

// How little the supports of different ranks overlapped in the communicator's last call. It is the
// part of the union beyond the largest support, as a share of that part for independent supports.
constexpr std::uint16_t kWholeUnion = UINT16_MAX;
struct LearnedUnion {
  std::uint16_t share = kWholeUnion;
};

enum class EntryCoding : std::uint8_t { kAuto, kOn, kOff };

// The communicator's input to a call.
struct CommContext {
  Engine* engine = nullptr;
  std::shared_ptr<BufferPool> buffers = std::make_shared<BufferPool>();
  std::shared_ptr<transport::NodeWindow>
      window;  // memory of this rank that ranks of this machine read; nullptr: none
  NodeMap node_map;
  PlaceHashes place{};          // this rank's
  PlaceTree places;             // of all ranks
  double oversubscription = 1;  // ranks of this machine for each of its cores, at least 1; this
                                // rank's figure, not that of all ranks
  const kernels::KernelSet* kernels = nullptr;
  codec::Verify verify = codec::Verify::kTouched;
  std::string broadcast_algorithm = "auto";
  std::string all_reduce_algorithm = "auto";
  std::string sparse_sum_algorithm = "auto";
  std::string aggregate_algorithm = "auto";
  Determinism determinism = Determinism::kCanonical;  // of sparse sums
  std::uint32_t max_scratch_mib =
      UINT32_MAX;  // that a sparse sum takes, if another algorithm needs less
  std::shared_ptr<LearnedUnion> learned_union = std::make_shared<LearnedUnion>();  // of sparse sums
  std::shared_ptr<LearnedUnion> learned_top_k =
      std::make_shared<LearnedUnion>();  // for the supports of top-k calls
  std::shared_ptr<LastSumPlan> last_sum_plan = std::make_shared<LastSumPlan>();
  // Kernels of some rank read and wrote its arrays in the last blocking broadcast of a kind
  // (CallKind). A root on the host then writes a format that these kernels read.
  std::shared_ptr<std::array<bool, 8>> devices_take_part = std::make_shared<std::array<bool, 8>>();
  std::uint32_t fragment_bytes = 0;  // 0: by the cost model
  bool device_classes = false;       // roots on a GPU encode 16-bit floats in classes
  double link_gbit = 0;              // of a link between two ranks; 0: by the cost model
  DeviceCalls* device = nullptr;     // between the ranks' GPUs; nullptr: staged through host memory
  WorkerPool* workers = nullptr;     // with more than one thread; nullptr: only the caller's thread

  EntryCoding entry_coding = EntryCoding::kAuto;
  // are_scaled: their values are sent as 8 bits, which only coded entries can be.
  bool codes_entries(bool are_scaled) const {
    return entry_coding == EntryCoding::kAuto ? are_scaled || link().is_slow()
                                              : entry_coding == EntryCoding::kOn;
  }

  std::optional<LinkCost> measured_link;
  LinkCost link() const { return measured_link ? *measured_link : link_cost(engine->transport()); }

  // The source of buffers for outgoing messages.
  BufferSource& outgoing() const {
    return window != nullptr ? static_cast<BufferSource&>(*window) : *buffers;
  }
};

struct CallReport {
  const char* algorithm = "";
  std::uint64_t nnz_in = 0;
  std::uint64_t nnz_out = 0;
  Traffic traffic;
  std::uint64_t dense_bytes = 0;
  std::uint64_t bound_bytes = 0;  // 0: the bytes of the stream
  double dropped_l2 = 0;          // root of a lossy update
  std::optional<DataType> wire;   // of sums: the type in which values were sent; kInt8: with scales
  double seconds = 0;
  double seconds_predicted = 0;  // of the exchange alone, by the cost model: the same on all ranks
  double seconds_exchange = 0;
  bool applied = false;
};

}  // namespace sparcl::comm
