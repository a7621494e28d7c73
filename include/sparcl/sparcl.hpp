#pragma once
// sparcl for C++20: the C interface with ownership, spans and exceptions, and nothing else. Errors are thrown as sparcl::Error.

#if __cplusplus < 202002L
#error "sparcl.hpp needs C++20: compile with -std=c++20 (CMake: link sparcl::sparcl)"
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl {

class Error : public std::runtime_error {
 public:
  Error(sparclResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  sparclResult_t result() const { return result_; }
  // The communicator is over: shrink() or destroy it.
  bool poisons() const { return result_ == sparclRemoteError || result_ == sparclTimeout || result_ == sparclSystemError; }

 private:
  sparclResult_t result_;
};

// The one place where results become exceptions.
inline void check(sparclResult_t result, sparclComm_t comm = nullptr) {
  if (result == sparclSuccess) return;
  const char* text = sparclGetLastError(comm);
  throw Error(result, *text != '\0' ? text : sparclGetErrorString(result));
}

// A bfloat16 as its bits: enough to name the type; arithmetic is the caller's.
struct bfloat16 {
  std::uint16_t bits;
};
struct float16 {
  std::uint16_t bits;
};

template <class T>
constexpr sparclDataType_t data_type() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return sparclBool;
  else if constexpr (std::is_same_v<U, float>) return sparclFloat32;
  else if constexpr (std::is_same_v<U, double>) return sparclFloat64;
  else if constexpr (std::is_same_v<U, bfloat16>) return sparclBfloat16;
  else if constexpr (std::is_same_v<U, float16>) return sparclFloat16;
  else if constexpr (std::integral<U> && sizeof(U) == 1) return std::is_signed_v<U> ? sparclInt8 : sparclUint8;
  else if constexpr (std::integral<U> && sizeof(U) == 2) return std::is_signed_v<U> ? sparclInt16 : sparclUint16;
  else if constexpr (std::integral<U> && sizeof(U) == 4) return std::is_signed_v<U> ? sparclInt32 : sparclUint32;
  else {
    static_assert(std::integral<U> && sizeof(U) == 8, "sparcl has no data type for this C++ type");
    return std::is_signed_v<U> ? sparclInt64 : sparclUint64;
  }
}

using Report = sparclReport_t;
using Hash = std::array<std::uint8_t, 16>;

namespace detail {
template <class MpiComm>
struct InitMpi;  // sparcl_mpi.h knows that of MPI_Comm

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)destroy(handle);
  }
};
}  // namespace detail

// One call in flight. The destructor waits for it, ignoring its result: call wait() to see errors.
class Request {
 public:
  Request() = default;
  Request(sparclRequest_t handle, sparclComm_t comm) : handle_(handle), comm_(comm) {}
  Request(Request&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), comm_(other.comm_) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~Request() {
    if (handle_ != nullptr) (void)sparclWait(&handle_, nullptr);
  }

  bool test() {
    int done = 0;
    check(sparclTest(&handle_, &done, nullptr), comm_);
    return done != 0;
  }
  Report wait() {
    Report report = SPARCL_REPORT_INITIALIZER;
    check(sparclWait(&handle_, &report), comm_);
    return report;
  }

 private:
  sparclRequest_t handle_ = nullptr;
  sparclComm_t comm_ = nullptr;
};

// A model: tensors are the caller's and must outlive it.
class State {
 public:
  State() {
    sparclState_t handle = nullptr;
    check(sparclStateCreate(&handle));
    handle_.reset(handle);
  }

  template <class T>
  void add(const std::string& name, std::span<T> data, std::initializer_list<std::uint64_t> shape) {
    std::uint64_t count = 1;
    for (const std::uint64_t dimension : shape) count *= dimension;
    if (count != data.size()) throw Error(sparclInvalidArgument, "State::add: '" + name + "': the shape's product is not the span's length");
    add(name, data.data(), data_type<T>(), std::vector<std::uint64_t>(shape));
  }
  void add(const std::string& name, void* data, sparclDataType_t datatype, const std::vector<std::uint64_t>& shape) {
    check(sparclStateAdd(get(), name.c_str(), data, datatype, static_cast<int>(shape.size()), shape.data()));
  }

  // A slice of the tensor of this shape: `extent` indices from `begin` on in each dimension; data: the slice alone.
  template <class T>
  void add_slice(const std::string& name, std::span<T> data, std::initializer_list<std::uint64_t> shape,
                 std::initializer_list<std::uint64_t> begin, std::initializer_list<std::uint64_t> extent) {
    std::uint64_t count = 1;
    for (const std::uint64_t dimension : extent) count *= dimension;
    if (count != data.size()) throw Error(sparclInvalidArgument, "State::add_slice: '" + name + "': the extent's product is not the span's length");
    add_slice(name, data.data(), data_type<T>(), std::vector<std::uint64_t>(shape), std::vector<std::uint64_t>(begin),
              std::vector<std::uint64_t>(extent));
  }
  void add_slice(const std::string& name, void* data, sparclDataType_t datatype, const std::vector<std::uint64_t>& shape,
                 const std::vector<std::uint64_t>& begin, const std::vector<std::uint64_t>& extent) {
    if (begin.size() != shape.size() || extent.size() != shape.size()) {
      throw Error(sparclInvalidArgument, "State::add_slice: '" + name + "': shape, begin and extent differ in their dimensions");
    }
    check(sparclStateAddSlice(get(), name.c_str(), data, datatype, static_cast<int>(shape.size()), shape.data(), begin.data(),
                              extent.data()));
  }

  // A tensor that is rounded from its float32 master each time it is published.
  void add_master(const std::string& name, const float* master, sparclDataType_t datatype, const std::vector<std::uint64_t>& shape) {
    check(sparclStateAddMaster(get(), name.c_str(), master, datatype, static_cast<int>(shape.size()), shape.data()));
  }

  void mark_indices(const std::string& name, std::span<const std::uint64_t> indices) {
    check(sparclStateMarkIndices(get(), name.c_str(), indices.data(), indices.size()));
  }
  void mark_blocks(const std::string& name, std::span<const std::uint64_t> bitmap, std::size_t block) {
    check(sparclStateMarkBlocks(get(), name.c_str(), bitmap.data(), block));
  }

  void set_trainable(const std::string& name, bool trainable) {
    check(sparclStateSetTrainable(get(), name.c_str(), trainable ? 1 : 0));
  }
  void set_priority(const std::string& name, int priority) { check(sparclStateSetPriority(get(), name.c_str(), priority)); }

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

 private:
  std::unique_ptr<sparclState, detail::Destroy<sparclStateDestroy>> handle_;
};

// Elements of an array that all ranks know; each makes the same.
class Mask {
 public:
  static Mask of_indices(std::span<const std::uint64_t> indices, std::size_t count) {
    Mask made;
    made.take([&](sparclMask_t* mask) { return sparclMaskCreateIndices(mask, indices.data(), indices.size(), count); });
    return made;
  }
  static Mask random(std::size_t count, double density, std::uint64_t seed) {
    Mask made;
    made.take([&](sparclMask_t* mask) { return sparclMaskCreateRandom(mask, count, density, seed); });
    return made;
  }
  static Mask blocks(std::size_t count, std::size_t block, double density, std::uint64_t seed) {
    Mask made;
    made.take([&](sparclMask_t* mask) { return sparclMaskCreateBlocks(mask, count, block, density, seed); });
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

 private:
  Mask() = default;
  template <class Create>
  void take(Create&& create) {
    sparclMask_t handle = nullptr;
    check(create(&handle));
    handle_.reset(handle);
  }
  std::unique_ptr<sparclMask, detail::Destroy<sparclMaskDestroy>> handle_;
};

// What one rank has not sent yet of one array: see sparclFeedbackCreate.
class Feedback {
 public:
  Feedback(std::size_t count, sparclDataType_t datatype) {
    take([&](sparclFeedback_t* feedback) { return sparclFeedbackCreate(feedback, count, datatype); });
  }
  template <class T>
  static Feedback of(std::size_t count) {
    return Feedback(count, data_type<T>());
  }
  static Feedback load(const std::string& path) {
    Feedback made;
    made.take([&](sparclFeedback_t* feedback) { return sparclFeedbackLoad(feedback, path.c_str()); });
    return made;
  }

  void save(const std::string& path) const { check(sparclFeedbackSave(get(), path.c_str())); }
  void reset() { check(sparclFeedbackReset(get())); }
  sparclFeedbackStats_t stats() const {
    sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
    check(sparclFeedbackStats(get(), &stats));
    return stats;
  }
  // T: the residual's type, float for floats of 16 bits and less. Good until the next call with this feedback.
  template <class T>
  std::span<const T> residual() const {
    const void* residual = nullptr;
    std::size_t count = 0;
    sparclDataType_t datatype = sparclInt8;
    check(sparclFeedbackGetResidual(get(), &residual, &count, &datatype));
    if (datatype != data_type<T>()) throw Error(sparclInvalidArgument, "Feedback::residual: the residual has another type");
    return {static_cast<const T*>(residual), count};
  }
  sparclFeedback_t get() const { return handle_.get(); }

 private:
  Feedback() = default;
  template <class Create>
  void take(Create&& create) {
    sparclFeedback_t handle = nullptr;
    check(create(&handle));
    handle_.reset(handle);
  }
  std::unique_ptr<sparclFeedback, detail::Destroy<sparclFeedbackDestroy>> handle_;
};

// 128 bytes by which ranks without MPI find each other; this process must live until they have met.
inline sparclUniqueId unique_id() {
  sparclUniqueId id;
  check(sparclGetUniqueId(&id));
  return id;
}

// Publishes versions of a state to replicas, from a thread of its own. The state outlives it.
class Publisher {
 public:
  struct Options {
    std::string listen = {};    // "HOST:PORT"; empty: a free port of all interfaces
    std::string model_id = {};
    std::string key_path = {};  // empty: not signed
    int queue = 0;
  };
  explicit Publisher(const State& state) : Publisher(state, Options()) {}
  Publisher(const State& state, const Options& options) {
    sparclPublisherOptions_t given = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    given.listen = options.listen.empty() ? nullptr : options.listen.c_str();
    given.model_id = options.model_id.c_str();
    given.key_path = options.key_path.empty() ? nullptr : options.key_path.c_str();
    given.queue = options.queue;
    sparclPublisher_t handle = nullptr;
    check(sparclPublisherCreate(&handle, state.get(), &given));
    handle_.reset(handle);
  }

  std::string address() const {
    char address[128];
    check(sparclPublisherAddress(get(), address, sizeof address));
    return address;
  }
  void publish(std::uint64_t version) { check(sparclPublish(get(), version)); }
  // False: so many do not hold it in time.
  bool wait(std::uint64_t version, int replicas, double seconds) {
    const sparclResult_t result = sparclPublisherWait(get(), version, replicas, seconds);
    if (result != sparclTimeout) check(result);
    return result == sparclSuccess;
  }
  int replicas_holding(std::uint64_t version) const {
    int holding = 0;
    check(sparclPublisherCount(get(), version, nullptr, &holding));
    return holding;
  }
  // Of the last publish().
  Report last_report() const {
    Report report = SPARCL_REPORT_INITIALIZER;
    check(sparclPublisherLastReport(get(), &report));
    return report;
  }
  sparclPublisher_t get() const { return handle_.get(); }

 private:
  std::unique_ptr<sparclPublisher, detail::Destroy<sparclPublisherDestroy>> handle_;
};

// A replica: the state's tensors hold exactly one published version, and are written in next() alone. The state outlives it.
class Subscriber {
 public:
  struct Options {
    std::string model_id = {};
    std::string trust_path = {};                           // empty: signatures are not asked for
    std::function<void(std::uint64_t version)> on_swap = {};  // inside next(); must not throw
    bool double_buffer = false;                               // tensor() stays as it is while next() works
  };
  Subscriber(const State& state, const std::string& address) : Subscriber(state, address, Options()) {}
  Subscriber(const State& state, const std::string& address, Options options)
      : on_swap_(std::make_unique<std::function<void(std::uint64_t)>>(std::move(options.on_swap))) {
    sparclSubscriberOptions_t given = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    given.model_id = options.model_id.c_str();
    given.trust_path = options.trust_path.empty() ? nullptr : options.trust_path.c_str();
    given.double_buffer = options.double_buffer ? 1 : 0;
    if (*on_swap_) {
      given.on_swap = [](std::uint64_t version, void* arg) { (*static_cast<std::function<void(std::uint64_t)>*>(arg))(version); };
      given.arg = on_swap_.get();
    }
    sparclSubscriber_t handle = nullptr;
    check(sparclSubscriberCreate(&handle, state.get(), address.c_str(), &given));
    handle_.reset(handle);
  }

  // The newest version, which the tensors now hold; nothing if none has come in time.
  std::optional<std::uint64_t> next(double seconds) {
    std::uint64_t version = 0;
    const sparclResult_t result = sparclSubscriberNext(get(), seconds, &version);
    if (result == sparclTimeout) return {};
    check(result);
    return version;
  }
  // Where tensor i of the version that is held lies; sparclSubscriberTensor says for how long.
  const void* tensor(std::size_t i) const {
    const void* data = nullptr;
    check(sparclSubscriberTensor(get(), i, &data));
    return data;
  }
  std::uint64_t held() const {
    std::uint64_t held = 0;
    check(sparclSubscriberVersion(get(), &held, nullptr));
    return held;
  }
  std::uint64_t newest() const {
    std::uint64_t newest = 0;
    check(sparclSubscriberVersion(get(), nullptr, &newest));
    return newest;
  }
  void pin(std::uint64_t version) { check(sparclSubscriberPin(get(), version)); }
  sparclSubscriber_t get() const { return handle_.get(); }

 private:
  std::unique_ptr<std::function<void(std::uint64_t)>> on_swap_;
  std::unique_ptr<sparclSubscriber, detail::Destroy<sparclSubscriberDestroy>> handle_;
};

// stream: of arrays in device memory, as the C calls take it; spans are then of device memory, which is not touched here.
class Comm {
 public:
  Comm() = default;
  explicit Comm(sparclComm_t handle) : handle_(handle) {}  // takes ownership

  // The ranks are threads of this process.
  static std::vector<Comm> local(int ranks) {
    std::vector<sparclComm_t> handles(static_cast<std::size_t>(ranks > 0 ? ranks : 0));
    check(sparclCommInitLocal(handles.data(), ranks));
    return std::vector<Comm>(handles.begin(), handles.end());
  }

  // Without MPI: every rank gives the id that one of them made with unique_id().
  static Comm meet(int ranks, const sparclUniqueId& id, int rank, const sparclConfig_t* config = nullptr) {
    sparclComm_t handle = nullptr;
    check(sparclCommInitRank(&handle, ranks, id, rank, config));
    return Comm(handle);
  }

  // comm: an MPI_Comm. Needs sparcl/sparcl_mpi.h, included before or after this header.
  template <class MpiComm>
  static Comm mpi(MpiComm comm, const sparclConfig_t* config = nullptr) {
    sparclComm_t handle = nullptr;
    check(detail::InitMpi<MpiComm>::call(&handle, comm, config));
    return Comm(handle);
  }

  // After a failure: the ranks that live, see sparclCommShrink.
  Comm shrink() {
    sparclComm_t survivors = nullptr;
    check(sparclCommShrink(get(), &survivors), get());
    return Comm(survivors);
  }

  // The rank whose end or silence ended this communicator, if one did: see sparclCommGetFailedRank.
  std::optional<int> failed_rank() const {
    int rank = -1;
    check(sparclCommGetFailedRank(get(), &rank), get());
    return rank >= 0 ? std::optional(rank) : std::nullopt;
  }

  int rank() const {
    int rank = 0;
    check(sparclCommUserRank(get(), &rank), get());
    return rank;
  }
  int size() const {
    int size = 0;
    check(sparclCommCount(get(), &size), get());
    return size;
  }

  // base: the root's, empty if the ranks hold nothing; ignored on the others.
  template <class T>
  Report broadcast_delta(std::span<T> weights, std::span<const std::type_identity_t<T>> base, int root,
                         sparclStream_t stream = nullptr) {
    if (rank() == root && !base.empty() && base.size() != weights.size()) refuse("broadcast_delta: base and weights differ in length");
    check(sparclBroadcastDelta(weights.data(), base.data(), weights.size(), data_type<T>(), root, get(), stream), get());
    return report();
  }

  Report broadcast_update(State& state, std::uint64_t version, int root, sparclStream_t stream = nullptr) {
    check(sparclBroadcastUpdate(state.get(), version, root, get(), stream), get());
    return report();
  }
  // options: what is sent (sparclBroadcastUpdateEx); only the root's count.
  Report broadcast_update(State& state, std::uint64_t version, int root, const sparclUpdateOptions_t& options,
                          sparclStream_t stream = nullptr) {
    check(sparclBroadcastUpdateEx(state.get(), version, root, get(), stream, &options), get());
    return report();
  }
  Request start_broadcast_update(State& state, std::uint64_t version, int root) {
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastUpdate(state.get(), version, root, get(), &request), get());
    return Request(request, get());
  }
  Request start_broadcast_update(State& state, std::uint64_t version, int root, const sparclUpdateOptions_t& options) {
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastUpdateEx(state.get(), version, root, &options, get(), &request), get());
    return Request(request, get());
  }

  // Vectors are resized to what the root sends; `capacity` bounds it on the other ranks.
  template <class T>
  Report broadcast_sparse(std::vector<T>& values, std::vector<std::uint64_t>& indices, std::size_t capacity, int root) {
    const bool is_root = rank() == root;
    std::size_t nnz = indices.size();
    if (is_root && values.size() != nnz) refuse("broadcast_sparse: values and indices differ in length");
    if (!is_root) {
      values.resize(capacity);
      indices.resize(capacity);
    }
    const sparclResult_t result =
        sparclBroadcastSparse(values.data(), indices.data(), &nnz, capacity, data_type<T>(), root, get(), nullptr);
    if (!is_root) {
      values.resize(result == sparclSuccess ? nnz : 0);
      indices.resize(result == sparclSuccess ? nnz : 0);
    }
    check(result, get());
    return report();
  }

  // received: as long as `sent`, and may be it; elements outside the mask are left as they were.
  template <class T>
  Report all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received, const Mask& mask,
                           sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    if (sent.size() != received.size()) refuse("all_reduce_masked: sent and received differ in length");
    check(sparclAllReduceMasked(sent.data(), received.data(), sent.size(), data_type<T>(), op, mask.get(), get(), stream), get());
    return report();
  }
  template <class T>
  Request start_all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received, const Mask& mask,
                                  sparclRedOp_t op = sparclSum) {
    if (sent.size() != received.size()) refuse("start_all_reduce_masked: sent and received differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceMasked(sent.data(), received.data(), sent.size(), data_type<T>(), op, mask.get(), get(), &request), get());
    return Request(request, get());
  }

  // feedback: of as many elements.
  template <class T>
  Report all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received, const Mask& mask, Feedback& feedback,
                           sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    if (sent.size() != received.size()) refuse("all_reduce_masked: sent and received differ in length");
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.feedback = feedback.get();
    check(sparclAllReduceMaskedEx(sent.data(), received.data(), sent.size(), data_type<T>(), op, mask.get(), &options, get(), stream),
          get());
    return report();
  }

  // Of a vector of `count` elements; the union comes back in out_values and out_indices, which are as long as it then. What they can
  // hold is their capacity(), on each rank, so that they may be used again and again: the union is at most count, and at most all
  // ranks' entries together. Where it is more it is sparclTruncated, and the report's nnz_out says how much room it takes.
  template <class T>
  Report all_reduce_sparse(std::span<const T> values, std::span<const std::uint64_t> indices, std::size_t count,
                           std::vector<T>& out_values, std::vector<std::uint64_t>& out_indices, sparclRedOp_t op = sparclSum) {
    if (values.size() != indices.size()) refuse("all_reduce_sparse: values and indices differ in length");
    const std::size_t capacity = std::min(out_values.capacity(), out_indices.capacity());
    const std::size_t values_before = out_values.size(), indices_before = out_indices.size();
    out_values.resize(std::max(capacity, values_before));
    out_indices.resize(std::max(capacity, indices_before));
    std::size_t nnz = 0;
    const sparclResult_t result = sparclAllReduceSparse(values.data(), indices.data(), values.size(), count, out_values.data(),
                                                        out_indices.data(), &nnz, capacity, data_type<T>(), op, get(), nullptr);
    out_values.resize(result == sparclSuccess ? nnz : values_before);
    out_indices.resize(result == sparclSuccess ? nnz : indices_before);
    check(result, get());
    return report();
  }

  // received: as long as `sent`, and may be it. feedback: of as many elements; nullptr: what is not sent is discarded.
  template <class T>
  Report all_reduce_top_k(std::span<const std::type_identity_t<T>> sent, std::span<T> received, std::size_t k, Feedback* feedback,
                          const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER, sparclRedOp_t op = sparclSum,
                          sparclStream_t stream = nullptr) {
    if (sent.size() != received.size()) refuse("all_reduce_top_k: sent and received differ in length");
    check(sparclAllReduceTopKEx(sent.data(), received.data(), sent.size(), k, data_type<T>(), op,
                                feedback != nullptr ? feedback->get() : nullptr, &options, get(), stream),
          get());
    return report();
  }

  Report report() const {
    Report report = SPARCL_REPORT_INITIALIZER;
    check(sparclCommLastReport(get(), &report), get());
    return report;
  }

  // With this thread's GPU; all_reduce_masked and all_reduce_top_k of arrays in device memory then go between the GPUs. See
  // sparclCommUseNccl.
  void use_nccl(const sparclNcclOptions_t* options = nullptr) { check(sparclCommUseNccl(get(), options), get()); }
  // As cudaStreamSynchronize, for streams that hold such calls: an error or a dead rank ends the wait.
  void synchronize(sparclStream_t stream) { check(sparclCommStreamSynchronize(get(), stream), get()); }

  void abort() { check(sparclCommAbort(get()), get()); }
  sparclComm_t get() const { return handle_.get(); }

 private:
  // Takes part in the call that the other ranks make with a refusal, so that they get an error instead of waiting for this rank.
  [[noreturn]] void refuse(const char* text) {
    (void)sparclCommRefuse(get(), text);
    throw Error(sparclInvalidArgument, text);
  }

  std::unique_ptr<sparclComm, detail::Destroy<sparclCommDestroy>> handle_;
};

}  // namespace sparcl
