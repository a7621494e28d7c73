#pragma once
// Objects of the C interface as Python holds them. What a call of theirs reads or writes lives as
// long as the call.

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/src/array_view.hpp"
#include "python/src/python_calls.hpp"
#include "sparcl/sparcl.h"

namespace sparcl::python {

// Owns a handle; `Destroy` may block.
template <class T, sparclResult_t (*Destroy)(T)>
class Handle {
 public:
  Handle(T handle, const char* kind) : handle_(handle), kind_(kind) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  // Errors are lost: who wants to know them calls close().
  ~Handle() { destroy(); }
  T get() const {
    if (handle_ != nullptr) return handle_;
    const std::string text = "this " + std::string(kind_) + " is closed: make another one";
    raise(sparclInvalidUsage, nb::cast(text));
  }
  bool is_closed() const { return handle_ == nullptr; }
  // After an error it is open. A thread that finds another one closing it leaves it to that one.
  void close() {
    if (handle_ == nullptr || is_closing_) return;
    is_closing_ = true;
    sparclResult_t result;
    {
      const ReleasedGil released;
      result = Destroy(handle_);
    }
    is_closing_ = false;
    check(result);
    handle_ = nullptr;
    kept_.clear();
    views_.clear();
  }
  // Objects that live as long as the handle.
  void keep(nb::object object) { kept_.push_back(std::move(object)); }
  void keep(ArrayView view) { views_.push_back(std::move(view)); }

 protected:
  void destroy() {
    if (handle_ == nullptr) return;
    const ReleasedGil released;
    Destroy(std::exchange(handle_, nullptr));
  }

 private:
  T handle_;
  const char* kind_;
  bool is_closing_ = false;
  std::vector<nb::object> kept_;
  std::vector<ArrayView> views_;
};

using Mask = Handle<sparclMask_t, sparclMaskDestroy>;
using Feedback = Handle<sparclFeedback_t, sparclFeedbackDestroy>;
using State = Handle<sparclState_t, sparclStateDestroy>;
using Publisher = Handle<sparclPublisher_t, sparclPublisherDestroy>;
using Subscriber = Handle<sparclSubscriber_t, sparclSubscriberDestroy>;
using Aggregator = Handle<sparclAggregator_t, sparclAggregatorDestroy>;
using Worker = Handle<sparclWorker_t, sparclWorkerDestroy>;
using Store = Handle<sparclStore_t, sparclStoreClose>;

// What a call in flight uses.
struct InFlight {
  sparclRequest_t request = nullptr;
  std::size_t nnz = 0;
  std::vector<ArrayView> views;
  std::vector<nb::object> objects;
};

class Comm : public Handle<sparclComm_t, sparclCommDestroy> {
 public:
  explicit Comm(sparclComm_t comm) : Handle(comm, "communicator") {}
  ~Comm() {  // the calls of requests end before their arrays do
    destroy();
    drop_ended_orphans();
  }
  // Keeps what a request uses whose Python object is gone, until the call is over.
  void adopt(std::unique_ptr<InFlight> call) { orphans_.push_back(std::move(call)); }
  // Others may adopt meanwhile: other threads, and destructors that run here.
  void drop_ended_orphans() {
    std::vector<std::unique_ptr<InFlight>> held = std::exchange(orphans_, {});
    for (std::unique_ptr<InFlight>& each : held) {
      int done = 0;
      {
        const ReleasedGil released;
        sparclTest(&each->request, &done, nullptr);
      }
      if (done == 0 && each->request != nullptr) orphans_.push_back(std::move(each));
    }
  }

 private:
  std::vector<std::unique_ptr<InFlight>> orphans_;
};

// A text for the C interface; raises if it has a NUL, where it would end. Also without the GIL.
const char* c_text(const std::string& text);
inline const char* text_or_null(const std::optional<std::string>& text) {
  return text ? c_text(*text) : nullptr;
}

void add_communicators(nb::module_& module);
void add_collectives(nb::module_& module);
void add_states(nb::module_& module);
void add_replication(nb::module_& module);
void add_stores(nb::module_& module);
void add_files(nb::module_& module);
void add_aggregation(nb::module_& module);
void add_elastic(nb::module_& module);

}  // namespace sparcl::python
