#pragma once
// Requests, states, masks and feedbacks.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/aggregate.h"
#include "sparcl/collectives.h"
#include "sparcl/cpp_basics.hpp"

namespace sparcl {

// One call in flight. The destructor waits for it, ignoring its result: call wait() to see errors.
// It may outlive its Comm: where that goes first it ends the call, and wait() throws the error
// (sparclRemoteError). It keeps the State, Mask and Feedback of its call; the arrays must outlive
// it.
class Request {
 public:
  Request() = default;
  Request(sparclRequest_t handle, sparclComm_t comm, std::shared_ptr<void> first = nullptr,
          std::shared_ptr<void> second = nullptr)
      : handle_(handle), comm_(comm), kept_{std::move(first), std::move(second)} {}
  Request(Request&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)),
        comm_(other.comm_),
        kept_(std::exchange(other.kept_, {})) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(comm_, other.comm_);
    std::swap(kept_, other.kept_);
    return *this;
  }
  ~Request() {
    if (handle_ != nullptr) (void)sparclWait(&handle_, nullptr);
  }

  bool test() {
    int done = 0;
    const sparclResult_t result = sparclTest(&handle_, &done, nullptr);
    let_go();
    check(result, comm_);
    return done != 0;
  }
  Report wait() {
    Report report = SPARCL_REPORT_INITIALIZER;
    const sparclResult_t result = sparclWait(&handle_, &report);
    let_go();
    check(result, comm_);
    return report;
  }

 private:
  friend void wait_all(std::span<Request> requests);

  void let_go() {
    if (handle_ == nullptr) kept_ = {};
  }

  sparclRequest_t handle_ = nullptr;
  sparclComm_t comm_ = nullptr;
  std::array<std::shared_ptr<void>, 2> kept_;
};

// Waits for all of them, of one communicator or of several, and then throws the first one's error.
inline void wait_all(std::span<Request> requests) {
  std::vector<sparclRequest_t> handles;
  for (const Request& request : requests) handles.push_back(request.handle_);
  const sparclResult_t result = sparclWaitAll(handles.size(), handles.data(), nullptr);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    requests[i].handle_ = handles[i];
    requests[i].let_go();
  }
  check(result);
}

// A model: tensors are the caller's and must outlive it.
class State {
 public:
  State() {
    sparclState_t handle = nullptr;
    check(sparclStateCreate(&handle));
    handle_.reset(handle, detail::Destroy<sparclStateDestroy>());
  }

  template <detail::IsArray Data>
  void add(const std::string& name, Data&& data, std::initializer_list<std::uint64_t> shape) {
    add(name, detail::written(data), shape);
  }
  template <class T>
  void add(const std::string& name, std::span<T> data, std::initializer_list<std::uint64_t> shape) {
    std::uint64_t count = 1;
    for (const std::uint64_t dimension : shape) count *= dimension;
    if (count != data.size())
      throw Error(sparclInvalidArgument,
                  "State::add: '" + name + "': the shape's product is not the span's length");
    add(name, data.data(), data_type<T>(), std::vector<std::uint64_t>(shape));
  }
  void add(const std::string& name, void* data, sparclDataType_t datatype,
           const std::vector<std::uint64_t>& shape) {
    check(sparclStateAdd(get(), name.c_str(), data, datatype, static_cast<int>(shape.size()),
                         shape.data()));
  }

  // A slice of the tensor of this shape: `extent` indices from `begin` on in each dimension; data:
  // the slice alone.
  template <detail::IsArray Data>
  void add_slice(const std::string& name, Data&& data, std::initializer_list<std::uint64_t> shape,
                 std::initializer_list<std::uint64_t> begin,
                 std::initializer_list<std::uint64_t> extent) {
    add_slice(name, detail::written(data), shape, begin, extent);
  }
  template <class T>
  void add_slice(const std::string& name, std::span<T> data,
                 std::initializer_list<std::uint64_t> shape,
                 std::initializer_list<std::uint64_t> begin,
                 std::initializer_list<std::uint64_t> extent) {
    std::uint64_t count = 1;
    for (const std::uint64_t dimension : extent) count *= dimension;
    if (count != data.size())
      throw Error(sparclInvalidArgument, "State::add_slice: '" + name +
                                             "': the extent's product is not the span's length");
    add_slice(name, data.data(), data_type<T>(), std::vector<std::uint64_t>(shape),
              std::vector<std::uint64_t>(begin), std::vector<std::uint64_t>(extent));
  }
  void add_slice(const std::string& name, void* data, sparclDataType_t datatype,
                 const std::vector<std::uint64_t>& shape, const std::vector<std::uint64_t>& begin,
                 const std::vector<std::uint64_t>& extent) {
    if (begin.size() != shape.size() || extent.size() != shape.size()) {
      throw Error(
          sparclInvalidArgument,
          "State::add_slice: '" + name + "': shape, begin and extent differ in their dimensions");
    }
    check(sparclStateAddSlice(get(), name.c_str(), data, datatype, static_cast<int>(shape.size()),
                              shape.data(), begin.data(), extent.data()));
  }

  // A tensor that is rounded from its float32 master each time it is published.
  void add_master(const std::string& name, const float* master, sparclDataType_t datatype,
                  const std::vector<std::uint64_t>& shape) {
    check(sparclStateAddMaster(get(), name.c_str(), master, datatype,
                               static_cast<int>(shape.size()), shape.data()));
  }

  void mark_indices(const std::string& name, std::span<const std::uint64_t> indices) {
    check(sparclStateMarkIndices(get(), name.c_str(), indices.data(), indices.size()));
  }
  void mark_blocks(const std::string& name, std::span<const std::uint64_t> bitmap,
                   std::size_t block) {
    check(sparclStateMarkBlocks(get(), name.c_str(), bitmap.data(), block));
  }

  void set_trainable(const std::string& name, bool trainable) {
    check(sparclStateSetTrainable(get(), name.c_str(), trainable ? 1 : 0));
  }
  void set_priority(const std::string& name, int priority) {
    check(sparclStateSetPriority(get(), name.c_str(), priority));
  }

  std::uint64_t version() const {
    std::uint64_t version = 0;
    check(sparclStateVersion(get(), &version));
    return version;
  }
  Hash hash() const {
    Hash hash{};
    check(sparclStateHash(get(), hash.data()));
    return hash;
  }

  sparclState_t get() const { return handle_.get(); }
  // Held by a Request, Publisher or Subscriber, so that this State may be destroyed before it.
  std::shared_ptr<sparclState> shared() const { return handle_; }

 private:
  std::shared_ptr<sparclState> handle_;
};

// Elements of an array that all ranks know; each makes the same.
class Mask {
 public:
  static Mask of_indices(std::span<const std::uint64_t> indices, std::size_t count) {
    Mask made;
    made.take([&](sparclMask_t* mask) {
      return sparclMaskCreateIndices(mask, indices.data(), indices.size(), count);
    });
    return made;
  }
  static Mask random(std::size_t count, double density, std::uint64_t seed) {
    Mask made;
    made.take(
        [&](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, count, density, seed); });
    return made;
  }
  static Mask blocks(std::size_t count, std::size_t block, double density, std::uint64_t seed) {
    Mask made;
    made.take([&](sparclMask_t* mask) {
      return sparclMaskCreateBlocks(mask, count, block, density, seed);
    });
    return made;
  }

  void set_step(std::uint64_t step) { check(sparclMaskSetStep(get(), step)); }
  std::vector<std::uint64_t> indices() const {
    std::size_t nnz = 0;
    check(sparclMaskGetIndices(get(), nullptr, 0, &nnz));
    std::vector<std::uint64_t> indices(nnz);
    check(sparclMaskGetIndices(get(), indices.data(), nnz, &nnz));
    return indices;
  }
  sparclMask_t get() const { return handle_.get(); }
  std::shared_ptr<sparclMask> shared() const { return handle_; }  // for a Request

 private:
  Mask() = default;
  template <class Create>
  void take(Create&& create) {
    sparclMask_t handle = nullptr;
    check(create(&handle));
    handle_.reset(handle, detail::Destroy<sparclMaskDestroy>());
  }
  std::shared_ptr<sparclMask> handle_;
};

// The residual of one array of one rank: see sparclFeedbackCreate.
class Feedback {
 public:
  Feedback(std::size_t count, sparclDataType_t datatype) {
    take([&](sparclFeedback_t* feedback) {
      return sparclFeedbackCreate(feedback, count, datatype);
    });
  }
  template <class T>
  static Feedback of(std::size_t count) {
    return Feedback(count, data_type<T>());
  }
  static Feedback load(const std::string& path) {
    Feedback made;
    made.take(
        [&](sparclFeedback_t* feedback) { return sparclFeedbackLoad(feedback, path.c_str()); });
    return made;
  }

  void save(const std::string& path) const { check(sparclFeedbackSave(get(), path.c_str())); }
  void reset() { check(sparclFeedbackReset(get())); }
  sparclFeedbackStats_t stats() const {
    sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
    check(sparclFeedbackStats(get(), &stats));
    return stats;
  }
  // T: the residual's type, float for floats of 16 bits and less. Good until the next call with
  // this feedback.
  template <class T>
  std::span<const T> residual() const {
    const void* residual = nullptr;
    std::size_t count = 0;
    sparclDataType_t datatype = sparclInt8;
    check(sparclFeedbackGetResidual(get(), &residual, &count, &datatype));
    if (datatype != data_type<T>())
      throw Error(sparclInvalidArgument, "Feedback::residual: the residual has another type");
    return {static_cast<const T*>(residual), count};
  }
  sparclFeedback_t get() const { return handle_.get(); }
  std::shared_ptr<sparclFeedback> shared() const { return handle_; }  // for a Request

 private:
  Feedback() = default;
  template <class Create>
  void take(Create&& create) {
    sparclFeedback_t handle = nullptr;
    check(create(&handle));
    handle_.reset(handle, detail::Destroy<sparclFeedbackDestroy>());
  }
  std::shared_ptr<sparclFeedback> handle_;
};

// The aggregator of vectors of one length: see sparclAggregatorCreate.
class Aggregator {
 public:
  explicit Aggregator(std::size_t count, const sparclAggregatorOptions_t& options =
                                             SPARCL_AGGREGATOR_OPTIONS_INITIALIZER) {
    take([&](sparclAggregator_t* made) { return sparclAggregatorCreate(made, count, &options); });
  }
  static Aggregator load(const std::string& path) {
    Aggregator made;
    made.take(
        [&](sparclAggregator_t* loaded) { return sparclAggregatorLoad(loaded, path.c_str()); });
    return made;
  }

  void save(const std::string& path) const { check(sparclAggregatorSave(get(), path.c_str())); }
  sparclAggregatorStats_t stats() const {
    sparclAggregatorStats_t stats = SPARCL_AGGREGATOR_STATS_INITIALIZER;
    check(sparclAggregatorStats(get(), &stats));
    return stats;
  }
  sparclAggregator_t get() const { return handle_.get(); }
  std::shared_ptr<sparclAggregator> shared() const { return handle_; }  // for a Request

 private:
  Aggregator() = default;
  template <class Create>
  void take(Create&& create) {
    sparclAggregator_t handle = nullptr;
    check(create(&handle));
    handle_.reset(handle, detail::Destroy<sparclAggregatorDestroy>());
  }
  std::shared_ptr<sparclAggregator> handle_;
};

namespace detail {
inline sparclFeedback_t handle_of(const Feedback* feedback) {
  return feedback != nullptr ? feedback->get() : nullptr;
}
}  // namespace detail

}  // namespace sparcl
