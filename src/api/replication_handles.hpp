#pragma once
// The objects behind the handles of the replication service.

#include <memory>
#include <mutex>
#include <optional>

#include "sparcl/sparcl.h"
#include "src/api/handles.hpp"
#include "src/api/state_handle.hpp"
#include "src/api/store_fallback.hpp"
#include "src/base/worker_pool.hpp"
#include "src/codec/cast_source.hpp"
#include "src/codec/change_finder.hpp"
#include "src/model/device_tensor_source.hpp"
#include "src/model/device_tensors.hpp"
#include "src/replication/publisher.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/subscriber.hpp"
#include "src/store/store_sink.hpp"

namespace sparcl::api {

// A state while it is published or kept: it must not be destroyed, nor changed by another part of
// the library.
class AttachedState {
 public:
  // A publisher reads the tensors. A subscriber writes them, or their mirror if they are in device
  // memory.
  enum class Use : std::uint8_t { kRead, kWrite };
  // InvalidArgument, InvalidUsage: not now.
  static Result<std::unique_ptr<AttachedState>> attach(const Held<sparclState>& state, Use use);
  // A subscriber writes the tensors from now on: the mirror and the hash of a communicator's
  // updates are dropped.
  void begin_writing();
  // The mirror. nullptr: no tensor is in device memory.
  model::DeviceTensors* mirrored() const { return mirrored_.get(); }
  ~AttachedState();
  AttachedState(const AttachedState&) = delete;
  AttachedState& operator=(const AttachedState&) = delete;

  sparclState& state() const { return state_; }
  const replication::ReplicatedState& view() const { return view_; }

  // Lives while the tensors are read. Device memory is read behind the work that its default stream
  // holds when this is made.
  class Reading {
   public:
    explicit Reading(AttachedState& attached) : attached_(attached) {
      if (attached_.device_ != nullptr) attached_.device_->begin(nullptr);
    }
    ~Reading() {
      if (attached_.device_ != nullptr) (void)attached_.device_->end();
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    AttachedState& attached_;
  };

 private:
  explicit AttachedState(const Held<sparclState>& state) : held_(state), state_(*state) {}
  Status find_sources();
  Status read_device();
  Status make_mirror();
  Held<sparclState> held_;
  sparclState& state_;
  std::vector<std::byte*> arrays_;  // of the tensors that the host reaches
  std::vector<std::byte> schema_;
  std::unique_ptr<WorkerPool> workers_;  // where there is more than one thread
  std::optional<codec::BlockMap>
      lying_;  // the tensors as they lie in device memory: masters are float32
  std::unique_ptr<model::DeviceTensorSource> device_;  // of these
  std::unique_ptr<codec::CastSource> masters_;         // here and there
  std::unique_ptr<codec::RoutedSource> sources_;       // both of these
  std::unique_ptr<codec::ChangeFinder> finder_;        // where all of them are on one GPU
  std::unique_ptr<model::DeviceTensors> mirrored_;
  replication::ReplicatedState view_;
};

}  // namespace sparcl::api

struct sparclPublisher {
  sparcl::api::OwnHandle<sparclPublisher> handle{this};
  std::unique_ptr<sparcl::api::AttachedState> attached;
  std::unique_ptr<sparcl::store::StoreSink> stored;  // nullptr: it has no store
  std::unique_ptr<sparcl::replication::Publisher> publisher;
  std::mutex reporting;  // guards last_report
  std::optional<sparcl::replication::Publisher::PublishReport> last_report;
};

// What the tensors of a subscriber hold after a call that may have written them: its state knows
// it.
namespace sparcl::api {
Status note_swap(sparclSubscriber& subscriber, const Result<replication::Subscriber::Swap>& swap);
// InvalidUsage: the publisher only tells it of versions, which come from its store.
Status check_takes_updates(const sparclSubscriber& subscriber, const char* call);
}  // namespace sparcl::api

struct sparclSubscriber {
  sparcl::api::OwnHandle<sparclSubscriber> handle{this};
  std::unique_ptr<sparcl::api::AttachedState> attached;
  std::unique_ptr<sparcl::replication::Subscriber> subscriber;
  std::unique_ptr<sparcl::api::StoreFallback> fallback;  // nullptr: it has no store
  bool has_buffers = false;                              // the state's tensors are one of two sets
};
