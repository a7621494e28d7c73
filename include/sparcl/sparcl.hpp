#pragma once
// sparcl for C++20: the C interface with ownership, spans and exceptions, and nothing else. Errors
// are thrown as sparcl::Error.

#if __cplusplus < 202002L
#error "sparcl.hpp needs C++20: compile with -std=c++20 (CMake: link sparcl::sparcl)"
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "sparcl/sparcl.h"

namespace sparcl {

class Error : public std::runtime_error {
 public:
  Error(sparclResult_t result, const std::string& text)
      : std::runtime_error(text), result_(result) {}
  sparclResult_t result() const { return result_; }
  // The communicator is over: shrink() or destroy it.
  bool poisons() const {
    return result_ == sparclRemoteError || result_ == sparclTimeout || result_ == sparclSystemError;
  }

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
  if constexpr (std::is_same_v<U, bool>)
    return sparclBool;
  else if constexpr (std::is_same_v<U, float>)
    return sparclFloat32;
  else if constexpr (std::is_same_v<U, double>)
    return sparclFloat64;
  else if constexpr (std::is_same_v<U, bfloat16>)
    return sparclBfloat16;
  else if constexpr (std::is_same_v<U, float16>)
    return sparclFloat16;
  else if constexpr (std::integral<U> && sizeof(U) == 1)
    return std::is_signed_v<U> ? sparclInt8 : sparclUint8;
  else if constexpr (std::integral<U> && sizeof(U) == 2)
    return std::is_signed_v<U> ? sparclInt16 : sparclUint16;
  else if constexpr (std::integral<U> && sizeof(U) == 4)
    return std::is_signed_v<U> ? sparclInt32 : sparclUint32;
  else {
    static_assert(std::integral<U> && sizeof(U) == 8, "sparcl has no data type for this C++ type");
    return std::is_signed_v<U> ? sparclInt64 : sparclUint64;
  }
}

using Report = sparclReport_t;
using Hash = std::array<std::uint8_t, 16>;

namespace detail {
// sparcl_mpi.h has that of MPI_Comm.
template <class MpiComm>
struct InitMpi {
  static_assert(sizeof(MpiComm) == 0,
                "Comm::mpi takes an MPI_Comm: include <sparcl/sparcl_mpi.h>, and link sparcl::mpi "
                "(pkg-config: sparcl-mpi)");
  static sparclResult_t call(sparclComm_t*, MpiComm, const sparclConfig_t*) {
    return sparclInvalidUsage;
  }
};

// std::vector, std::array, C arrays and spans of any extent. A std::span<T> itself has overloads of
// its own, which also take what converts to one where T is named: all_reduce_top_k<float>(...).
template <class Array>
using ElementOf = std::remove_reference_t<std::ranges::range_reference_t<Array>>;
template <class Array>
concept IsRange = std::ranges::contiguous_range<Array> && std::ranges::sized_range<Array>;
template <class Array>
concept IsArray =
    IsRange<Array> && !std::is_same_v<std::remove_cvref_t<Array>, std::span<ElementOf<Array>>>;
// What a call writes.
template <class Array>
std::span<ElementOf<Array>> written(Array& array) {
  static_assert(!std::is_const_v<ElementOf<Array>>,
                "this call writes the array: give one whose elements are not const");
  return {std::ranges::data(array), std::ranges::size(array)};
}
// What a call that writes `Array` reads.
template <class Array>
using InputOf = std::span<const std::remove_cv_t<ElementOf<Array>>>;

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)destroy(handle);
  }
};
// The same; then what the handle needs goes.
template <auto destroy, class... Needed>
struct DestroyBefore {
  std::tuple<Needed...> needed;
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)destroy(handle);
  }
};
}  // namespace detail

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
  void let_go() {
    if (handle_ == nullptr) kept_ = {};
  }

  sparclRequest_t handle_ = nullptr;
  sparclComm_t comm_ = nullptr;
  std::array<std::shared_ptr<void>, 2> kept_;
};

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
  // What a Request, Publisher or Subscriber holds, so that this may go before it.
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

// What one rank has not sent yet of one array: see sparclFeedbackCreate.
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

// 128 bytes by which ranks without MPI find each other; this process must live until they have met.
inline sparclUniqueId unique_id() {
  sparclUniqueId id;
  check(sparclGetUniqueId(&id));
  return id;
}

// Publishes versions of a state to replicas, from a thread of its own. It keeps the state; the
// tensors must outlive it.
class Publisher {
 public:
  struct Options {
    std::string listen = {};  // "HOST:PORT"; empty: a free port of all interfaces
    std::string model_id = {};
    std::string key_path = {};  // empty: not signed
    int queue = 0;
    std::string state_path =
        {};  // keeps the publisher's epoch for its next life; empty: nothing is kept
    std::uint64_t peer_bytes = 0;  // memory that peers may cause; 0: SPARCL_PEER_BYTES
  };
  explicit Publisher(const State& state) : Publisher(state, Options()) {}
  Publisher(const State& state, const Options& options) {
    sparclPublisherOptions_t given = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    given.listen = options.listen.empty() ? nullptr : options.listen.c_str();
    given.model_id = options.model_id.c_str();
    given.key_path = options.key_path.empty() ? nullptr : options.key_path.c_str();
    given.queue = options.queue;
    given.state_path = options.state_path.empty() ? nullptr : options.state_path.c_str();
    given.peer_bytes = options.peer_bytes;
    sparclPublisher_t handle = nullptr;
    check(sparclPublisherCreate(&handle, state.get(), &given));
    handle_ = Handle(handle, {{state.shared()}});
  }

  std::string address() const {
    char address[128];
    check(sparclPublisherAddress(get(), address, sizeof address));
    return address;
  }
  void publish(std::uint64_t version) { check(sparclPublish(get(), version)); }
  // False if fewer replicas than asked for hold it in time; reason() then says more.
  bool wait(std::uint64_t version, int replicas, double seconds) {
    const sparclResult_t result = sparclPublisherWait(get(), version, replicas, seconds);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result != sparclTimeout) check(result);
    return result == sparclSuccess;
  }
  // Why the last wait() gave false; else empty.
  const std::string& reason() const { return reason_; }
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
  using Handle =
      std::unique_ptr<sparclPublisher,
                      detail::DestroyBefore<sparclPublisherDestroy, std::shared_ptr<sparclState>>>;
  std::string reason_;
  Handle handle_;
};

// A replica: the state's tensors hold exactly one published version, and are written in next()
// alone. It keeps the state; the tensors must outlive it.
class Subscriber {
 public:
  struct Options {
    std::string model_id = {};
    std::string trust_path = {};                              // empty: signatures are not asked for
    std::function<void(std::uint64_t version)> on_swap = {};  // inside next(); must not throw
    bool double_buffer = false;    // tensor() stays as it is while next() works
    std::string record_path = {};  // with trust_path: the next life refuses older versions
  };
  Subscriber(const State& state, const std::string& address)
      : Subscriber(state, address, Options()) {}
  Subscriber(const State& state, const std::string& address, Options options) {
    const auto on_swap = std::make_shared<OnSwap>(std::move(options.on_swap));
    sparclSubscriberOptions_t given = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    given.model_id = options.model_id.c_str();
    given.trust_path = options.trust_path.empty() ? nullptr : options.trust_path.c_str();
    given.double_buffer = options.double_buffer ? 1 : 0;
    given.record_path = options.record_path.empty() ? nullptr : options.record_path.c_str();
    if (*on_swap) {
      given.on_swap = [](std::uint64_t version, void* arg) {
        (*static_cast<OnSwap*>(arg))(version);
      };
      given.arg = on_swap.get();
    }
    sparclSubscriber_t handle = nullptr;
    check(sparclSubscriberCreate(&handle, state.get(), address.c_str(), &given));
    handle_ = Handle(handle, {{state.shared(), on_swap}});
  }

  // The newest version, which the tensors now hold; nothing if none has come in time, and reason()
  // then says why.
  std::optional<std::uint64_t> next(double seconds) {
    std::uint64_t version = 0;
    const sparclResult_t result = sparclSubscriberNext(get(), seconds, &version);
    reason_ = result == sparclTimeout ? sparclGetLastError(nullptr) : "";
    if (result == sparclTimeout) return {};
    check(result);
    return version;
  }
  // Why the last next() gave nothing: what the subscriber waits for. Else empty.
  const std::string& reason() const { return reason_; }
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
  using OnSwap = std::function<void(std::uint64_t)>;
  using Destroy = detail::DestroyBefore<sparclSubscriberDestroy, std::shared_ptr<sparclState>,
                                        std::shared_ptr<OnSwap>>;
  using Handle = std::unique_ptr<sparclSubscriber, Destroy>;
  std::string reason_;
  Handle handle_;
};

// stream: of arrays in device memory, as the C calls take it; spans are then of device memory,
// which is not touched here.
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
  static Comm meet(int ranks, const sparclUniqueId& id, int rank,
                   const sparclConfig_t* config = nullptr) {
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

  // Arrays of calls are std::vector, std::array, C arrays or std::span; those that are written, not
  // of const elements. Of start_..., arrays must stay as they are until the request is done.

  // base: the root's, empty if the ranks hold nothing; ignored on the others.
  template <class T>
  Report broadcast_delta(std::span<T> weights, std::span<const std::type_identity_t<T>> base,
                         int root, sparclStream_t stream = nullptr) {
    check_base(weights.size(), base.size(), root,
               "broadcast_delta: base and weights differ in length");
    check(sparclBroadcastDelta(weights.data(), base.data(), weights.size(), data_type<T>(), root,
                               get(), stream),
          get());
    return report();
  }
  template <detail::IsArray Weights>
  Report broadcast_delta(Weights&& weights, detail::InputOf<Weights> base, int root,
                         sparclStream_t stream = nullptr) {
    return broadcast_delta(detail::written(weights), base, root, stream);
  }
  template <class T>
  Request start_broadcast_delta(std::span<T> weights, std::span<const std::type_identity_t<T>> base,
                                int root) {
    check_base(weights.size(), base.size(), root,
               "start_broadcast_delta: base and weights differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastDelta(weights.data(), base.data(), weights.size(), data_type<T>(), root,
                                get(), &request),
          get());
    return Request(request, get());
  }
  template <detail::IsArray Weights>
  Request start_broadcast_delta(Weights&& weights, detail::InputOf<Weights> base, int root) {
    return start_broadcast_delta(detail::written(weights), base, root);
  }

  Report broadcast_update(State& state, std::uint64_t version, int root,
                          sparclStream_t stream = nullptr) {
    check(sparclBroadcastUpdate(state.get(), version, root, get(), stream), get());
    return report();
  }
  // options: what is sent (sparclBroadcastUpdateEx); only the root's count.
  Report broadcast_update(State& state, std::uint64_t version, int root,
                          const sparclUpdateOptions_t& options, sparclStream_t stream = nullptr) {
    check(sparclBroadcastUpdateEx(state.get(), version, root, get(), stream, &options), get());
    return report();
  }
  Request start_broadcast_update(State& state, std::uint64_t version, int root) {
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastUpdate(state.get(), version, root, get(), &request), get());
    return Request(request, get(), state.shared());
  }
  Request start_broadcast_update(State& state, std::uint64_t version, int root,
                                 const sparclUpdateOptions_t& options) {
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastUpdateEx(state.get(), version, root, &options, get(), &request), get());
    return Request(request, get(), state.shared());
  }

  // Vectors are resized to what the root sends; `capacity` bounds it on the other ranks.
  template <class T>
  Report broadcast_sparse(std::vector<T>& values, std::vector<std::uint64_t>& indices,
                          std::size_t capacity, int root) {
    const bool is_root = rank() == root;
    std::size_t nnz = indices.size();
    if (is_root && values.size() != nnz)
      refuse("broadcast_sparse: values and indices differ in length");
    if (!is_root) make_room(values, indices, capacity);
    const sparclResult_t result = sparclBroadcastSparse(
        values.data(), indices.data(), &nnz, capacity, data_type<T>(), root, get(), nullptr);
    if (!is_root) {
      values.resize(result == sparclSuccess ? nnz : 0);
      indices.resize(result == sparclSuccess ? nnz : 0);
    }
    check(result, get());
    return report();
  }
  // nnz: in on the root, out on the others, where the arrays' length is their capacity; it must
  // stay until the request is done.
  template <detail::IsArray Values>
  Request start_broadcast_sparse(Values&& values, std::span<std::uint64_t> indices,
                                 std::size_t& nnz, int root) {
    return start_broadcast_sparse(detail::written(values), indices, nnz, root);
  }
  template <class T>
  Request start_broadcast_sparse(std::span<T> values, std::span<std::uint64_t> indices,
                                 std::size_t& nnz, int root) {
    if (values.size() != indices.size())
      refuse("start_broadcast_sparse: values and indices differ in length");
    if (rank() == root && nnz > values.size())
      refuse("start_broadcast_sparse: nnz is more than the arrays have");
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastSparse(values.data(), indices.data(), &nnz, values.size(), data_type<T>(),
                                 root, get(), &request),
          get());
    return Request(request, get());
  }

  // received: as long as `sent`, and may be it. **Elements outside the mask are left as they
  // were**: in place (received is sent) those are this rank's own values, which differ between
  // ranks. Clear them, or receive into zeros, before all ranks use the array alike.
  template <class T>
  Report all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received,
                           const Mask& mask, sparclRedOp_t op = sparclSum,
                           sparclStream_t stream = nullptr) {
    if (sent.size() != received.size())
      refuse("all_reduce_masked: sent and received differ in length");
    check(sparclAllReduceMasked(sent.data(), received.data(), sent.size(), data_type<T>(), op,
                                mask.get(), get(), stream),
          get());
    return report();
  }
  template <detail::IsArray Received>
  Report all_reduce_masked(detail::InputOf<Received> sent, Received&& received, const Mask& mask,
                           sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return all_reduce_masked(sent, detail::written(received), mask, op, stream);
  }
  template <class T>
  Request start_all_reduce_masked(std::span<const std::type_identity_t<T>> sent,
                                  std::span<T> received, const Mask& mask,
                                  sparclRedOp_t op = sparclSum) {
    if (sent.size() != received.size())
      refuse("start_all_reduce_masked: sent and received differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceMasked(sent.data(), received.data(), sent.size(), data_type<T>(), op,
                                 mask.get(), get(), &request),
          get());
    return Request(request, get(), mask.shared());
  }
  template <detail::IsArray Received>
  Request start_all_reduce_masked(detail::InputOf<Received> sent, Received&& received,
                                  const Mask& mask, sparclRedOp_t op = sparclSum) {
    return start_all_reduce_masked(sent, detail::written(received), mask, op);
  }

  // feedback: of as many elements.
  template <class T>
  Report all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received,
                           const Mask& mask, Feedback& feedback, sparclRedOp_t op = sparclSum,
                           sparclStream_t stream = nullptr) {
    if (sent.size() != received.size())
      refuse("all_reduce_masked: sent and received differ in length");
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.feedback = feedback.get();
    check(sparclAllReduceMaskedEx(sent.data(), received.data(), sent.size(), data_type<T>(), op,
                                  mask.get(), &options, get(), stream),
          get());
    return report();
  }
  template <detail::IsArray Received>
  Report all_reduce_masked(detail::InputOf<Received> sent, Received&& received, const Mask& mask,
                           Feedback& feedback, sparclRedOp_t op = sparclSum,
                           sparclStream_t stream = nullptr) {
    return all_reduce_masked(sent, detail::written(received), mask, feedback, op, stream);
  }
  template <class T>
  Request start_all_reduce_masked(std::span<const std::type_identity_t<T>> sent,
                                  std::span<T> received, const Mask& mask, Feedback& feedback,
                                  sparclRedOp_t op = sparclSum) {
    if (sent.size() != received.size())
      refuse("start_all_reduce_masked: sent and received differ in length");
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.feedback = feedback.get();
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceMaskedEx(sent.data(), received.data(), sent.size(), data_type<T>(), op,
                                   mask.get(), &options, get(), &request),
          get());
    return Request(request, get(), mask.shared(), feedback.shared());
  }
  template <detail::IsArray Received>
  Request start_all_reduce_masked(detail::InputOf<Received> sent, Received&& received,
                                  const Mask& mask, Feedback& feedback,
                                  sparclRedOp_t op = sparclSum) {
    return start_all_reduce_masked(sent, detail::written(received), mask, feedback, op);
  }

  // Sums sparse vectors of `count` elements. out_values and out_indices get the union's entries and
  // its length. They grow as needed: if the union does not fit the smaller capacity() of a rank's
  // vectors, all ranks make the call once more, with room for it. Therefore either all ranks use
  // this overload for the same call, or none does.
  template <class T>
  Report all_reduce_sparse(std::span<const T> values, std::span<const std::uint64_t> indices,
                           std::size_t count, std::vector<T>& out_values,
                           std::vector<std::uint64_t>& out_indices, sparclRedOp_t op = sparclSum) {
    const std::size_t room = std::min(out_values.capacity(), out_indices.capacity());
    std::size_t nnz = 0;
    sparclResult_t result =
        sum_into(values, indices, count, room, out_values, out_indices, nnz, op);
    if (result == sparclTruncated) {
      const std::size_t needed = std::max(room, nnz);
      result = sum_into(values, indices, count, needed, out_values, out_indices, nnz, op);
    }
    check(result, get());
    return report();
  }
  // The same with room for `capacity` entries, and no second call: sparclTruncated on every rank
  // where the union has more than any rank's capacity; the report's nnz_out says how many.
  template <class T>
  Report all_reduce_sparse(std::span<const T> values, std::span<const std::uint64_t> indices,
                           std::size_t count, std::vector<T>& out_values,
                           std::vector<std::uint64_t>& out_indices, std::size_t capacity,
                           sparclRedOp_t op = sparclSum) {
    std::size_t nnz = 0;
    check(sum_into(values, indices, count, capacity, out_values, out_indices, nnz, op), get());
    return report();
  }
  template <detail::IsRange Values, class T>
  requires(!std::is_same_v<Values, std::span<const T>>) Report
      all_reduce_sparse(const Values& values, std::span<const std::uint64_t> indices,
                        std::size_t count, std::vector<T>& out_values,
                        std::vector<std::uint64_t>& out_indices, sparclRedOp_t op = sparclSum) {
    return all_reduce_sparse(std::span<const T>(values), indices, count, out_values, out_indices,
                             op);
  }
  template <detail::IsRange Values, class T>
  requires(!std::is_same_v<Values, std::span<const T>>) Report
      all_reduce_sparse(const Values& values, std::span<const std::uint64_t> indices,
                        std::size_t count, std::vector<T>& out_values,
                        std::vector<std::uint64_t>& out_indices, std::size_t capacity,
                        sparclRedOp_t op = sparclSum) {
    return all_reduce_sparse(std::span<const T>(values), indices, count, out_values, out_indices,
                             capacity, op);
  }
  // out_values and out_indices: their length is their capacity. nnz: how many entries the union
  // has; it must stay until the request is done.
  template <detail::IsArray OutValues>
  Request start_all_reduce_sparse(detail::InputOf<OutValues> values,
                                  std::span<const std::uint64_t> indices, std::size_t count,
                                  OutValues&& out_values, std::span<std::uint64_t> out_indices,
                                  std::size_t& nnz, sparclRedOp_t op = sparclSum) {
    return start_all_reduce_sparse(values, indices, count, detail::written(out_values), out_indices,
                                   nnz, op);
  }
  template <class T>
  Request start_all_reduce_sparse(std::span<const std::type_identity_t<T>> values,
                                  std::span<const std::uint64_t> indices, std::size_t count,
                                  std::span<T> out_values, std::span<std::uint64_t> out_indices,
                                  std::size_t& nnz, sparclRedOp_t op = sparclSum) {
    if (values.size() != indices.size())
      refuse("start_all_reduce_sparse: values and indices differ in length");
    if (out_values.size() != out_indices.size())
      refuse("start_all_reduce_sparse: out_values and out_indices differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceSparse(values.data(), indices.data(), values.size(), count,
                                 out_values.data(), out_indices.data(), &nnz, out_values.size(),
                                 data_type<T>(), op, get(), &request),
          get());
    return Request(request, get());
  }

  // received: as long as `sent`, and may be it. feedback: of as many elements; nullptr: what is not
  // sent is discarded.
  template <class T>
  Report all_reduce_top_k(std::span<const std::type_identity_t<T>> sent, std::span<T> received,
                          std::size_t k, Feedback* feedback,
                          const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
                          sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    if (sent.size() != received.size())
      refuse("all_reduce_top_k: sent and received differ in length");
    check(sparclAllReduceTopKEx(sent.data(), received.data(), sent.size(), k, data_type<T>(), op,
                                feedback != nullptr ? feedback->get() : nullptr, &options, get(),
                                stream),
          get());
    return report();
  }
  template <detail::IsArray Received>
  Report all_reduce_top_k(detail::InputOf<Received> sent, Received&& received, std::size_t k,
                          Feedback* feedback,
                          const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
                          sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return all_reduce_top_k(sent, detail::written(received), k, feedback, options, op, stream);
  }
  template <class T>
  Request start_all_reduce_top_k(
      std::span<const std::type_identity_t<T>> sent, std::span<T> received, std::size_t k,
      Feedback* feedback, const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
      sparclRedOp_t op = sparclSum) {
    if (sent.size() != received.size())
      refuse("start_all_reduce_top_k: sent and received differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceTopKEx(sent.data(), received.data(), sent.size(), k, data_type<T>(), op,
                                 feedback != nullptr ? feedback->get() : nullptr, &options, get(),
                                 &request),
          get());
    return Request(request, get(), feedback != nullptr ? feedback->shared() : nullptr);
  }
  template <detail::IsArray Received>
  Request start_all_reduce_top_k(
      detail::InputOf<Received> sent, Received&& received, std::size_t k, Feedback* feedback,
      const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
      sparclRedOp_t op = sparclSum) {
    return start_all_reduce_top_k(sent, detail::written(received), k, feedback, options, op);
  }

  Report report() const {
    Report report = SPARCL_REPORT_INITIALIZER;
    check(sparclCommLastReport(get(), &report), get());
    return report;
  }

  // With this thread's GPU; all_reduce_masked and all_reduce_top_k of arrays in device memory then
  // go between the GPUs. See sparclCommUseNccl.
  void use_nccl(const sparclNcclOptions_t* options = nullptr) {
    check(sparclCommUseNccl(get(), options), get());
  }
  // As cudaStreamSynchronize, for streams that hold such calls: an error or a dead rank ends the
  // wait.
  void synchronize(sparclStream_t stream) {
    check(sparclCommStreamSynchronize(get(), stream), get());
  }

  void abort() { check(sparclCommAbort(get()), get()); }
  sparclComm_t get() const { return handle_.get(); }

 private:
  void check_base(std::size_t weights, std::size_t base, int root, const char* text) {
    if (rank() == root && base != 0 && base != weights) refuse(text);
  }

  // A rank without memory takes part with a refusal.
  template <class T>
  void make_room(std::vector<T>& values, std::vector<std::uint64_t>& indices, std::size_t entries) {
    try {
      values.resize(entries);
      indices.resize(entries);
    } catch (const std::exception&) {
      refuse("no memory for the entries that the call may give: give a smaller capacity");
    }
  }

  // Where it fails the vectors are as they were.
  template <class T>
  sparclResult_t sum_into(std::span<const T> values, std::span<const std::uint64_t> indices,
                          std::size_t count, std::size_t room, std::vector<T>& out_values,
                          std::vector<std::uint64_t>& out_indices, std::size_t& nnz,
                          sparclRedOp_t op) {
    if (values.size() != indices.size())
      refuse("all_reduce_sparse: values and indices differ in length");
    const std::size_t values_before = out_values.size(), indices_before = out_indices.size();
    make_room(out_values, out_indices, std::max({room, values_before, indices_before}));
    const sparclResult_t result = sparclAllReduceSparse(
        values.data(), indices.data(), values.size(), count, out_values.data(), out_indices.data(),
        &nnz, room, data_type<T>(), op, get(), nullptr);
    out_values.resize(result == sparclSuccess ? nnz : values_before);
    out_indices.resize(result == sparclSuccess ? nnz : indices_before);
    return result;
  }

  // Takes part in the call that the other ranks make with a refusal, so that they get an error
  // instead of waiting for this rank.
  [[noreturn]] void refuse(const char* text) {
    (void)sparclCommRefuse(get(), text);
    throw Error(sparclInvalidArgument, text);
  }

  std::unique_ptr<sparclComm, detail::Destroy<sparclCommDestroy>> handle_;
};

}  // namespace sparcl
