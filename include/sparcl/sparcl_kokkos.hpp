#pragma once
// sparcl's calls on Kokkos views (C++20), in the order of the given instance of an execution space.
// Views have one dimension and no strides. A call takes of a view:
//  - CUDA device memory (CudaSpace, from an instance of Kokkos::Cuda): the view itself and the
//    instance's stream. docs/guides/gpus.md tells what crosses to the host;
//  - memory that the host reaches, managed and pinned memory included: the view itself, after
//    space.fence();
//  - other memory (HIP, SYCL): a copy on the host, which is copied back.
// A call is complete when it returns. Calls between GPUs are complete after space.fence(). The
// kernels of kokkos_kernels.hpp (changes, top-k, gather, scatter, error feedback) run where the
// views are.

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "sparcl/kokkos_kernels.hpp"
#include "sparcl/sparcl.hpp"

namespace sparcl::kokkos {

// The data type of a view's elements: sparcl's for the type, and that of Kokkos' half_t and bhalf_t
// where they have 16 bits.
template <class T>
constexpr sparclDataType_t data_type() {
  constexpr detail::Half kHalf = detail::half_of<std::remove_cv_t<T>>;
  if constexpr (kHalf == detail::Half::kFloat16)
    return sparclFloat16;
  else if constexpr (kHalf == detail::Half::kBfloat16)
    return sparclBfloat16;
  else
    return sparcl::data_type<T>();
}

namespace detail {

// Device memory that the C calls take from an instance of this space, and the stream by which they
// are ordered: CUDA's only.
template <class Space, class Memory>
struct DeviceMemory {
  static constexpr bool is_taken = false;
};
#ifdef KOKKOS_ENABLE_CUDA
template <>
struct DeviceMemory<Kokkos::Cuda, Kokkos::CudaSpace> {
  // Kokkos may have been built so that this is managed memory, which counts as the host's.
  static constexpr bool is_taken =
      !Kokkos::SpaceAccessibility<Kokkos::HostSpace, Kokkos::CudaSpace>::accessible;
  static sparclStream_t stream(const Kokkos::Cuda& space) { return space.cuda_stream(); }
};
#endif

enum class Access { kDevice, kHost, kCopy };

template <class Space, class View>
constexpr Access access_of() {
  using Memory = typename View::memory_space;
  if (DeviceMemory<Space, Memory>::is_taken) return Access::kDevice;
  return Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible ? Access::kHost
                                                                           : Access::kCopy;
}

// A view as a C call takes it: a pointer, which is valid once this is made, and a stream if the
// call has to keep its order. give_back() copies what the call has written.
template <class Space, class View, Access kAccess = access_of<Space, View>()>
class Argument {
 public:
  using Value = typename View::value_type;  // const where the view's elements are

  // is_read: what the view holds matters to the call.
  Argument(const Space& space, const View& view, bool is_read = true) : space_(space), view_(view) {
    static_assert(is_plain<View>(), "sparcl takes views of one dimension without strides");
    if constexpr (kAccess == Access::kCopy) {
      copy_ = Copy(Kokkos::ViewAllocateWithoutInitializing("sparcl::host"), view.extent(0));
      if (is_read) Kokkos::deep_copy(space, copy_, view);
    }
    if constexpr (kAccess != Access::kDevice) space.fence();
  }

  std::size_t count() const { return view_.extent(0); }
  Value* data() const {
    if (count() == 0) return nullptr;
    if constexpr (kAccess == Access::kCopy)
      return copy_.data();
    else
      return view_.data();
  }
  // C calls refuse a stream without arrays that are on a device.
  sparclStream_t stream() const {
    if constexpr (kAccess == Access::kDevice)
      return count() == 0 ? nullptr
                          : DeviceMemory<Space, typename View::memory_space>::stream(space_);
    else
      return nullptr;
  }

  // The call has written the first `count` elements.
  void give_back(std::size_t count) const {
    if constexpr (kAccess == Access::kCopy) {
      const std::pair<std::size_t, std::size_t> written(0, count);
      Kokkos::deep_copy(space_, Kokkos::subview(view_, written), Kokkos::subview(copy_, written));
      space_.fence();
    }
  }
  void give_back() const { give_back(count()); }

 private:
  using Copy = Kokkos::View<std::remove_const_t<Value>*, Kokkos::LayoutRight, Kokkos::HostSpace>;
  Space space_;
  View view_;
  Copy copy_;
};

template <class... Arguments>
sparclStream_t stream_of(const Arguments&... arguments) {
  sparclStream_t stream = nullptr;
  ((stream = stream == nullptr ? arguments.stream() : stream), ...);
  return stream;
}

template <class View>
auto first_of(const View& view, std::size_t count) {
  return Kokkos::subview(view, std::pair<std::size_t, std::size_t>(0, count));
}

// Takes part in the call that the other ranks make, so that they get an error instead of waiting.
[[noreturn]] inline void refuse(Comm& comm, const char* why) {
  (void)sparclCommRefuse(comm.get(), why);
  throw Error(sparclInvalidArgument, why);
}

}  // namespace detail

// sparclAllReduceMasked: received has as many elements as `sent`, and may be it. By default
// elements outside the mask keep this rank's own values: in place the ranks' views then differ.
// options.outside = sparclOutsideZero writes zeros there.
template <class Space, class Sent, class Received>
Report all_reduce_masked(const Space& space, Comm& comm, const Sent& sent, const Received& received,
                         const Mask& mask, sparclRedOp_t op = sparclSum,
                         Feedback* feedback = nullptr,
                         const sparclMaskedOptions_t& options = SPARCL_MASKED_OPTIONS_INITIALIZER) {
  using Value = typename Received::value_type;
  static_assert(std::is_same_v<typename Sent::non_const_value_type, Value>);
  if (sent.extent(0) != received.extent(0))
    detail::refuse(comm, "all_reduce_masked: sent and received differ in length");
  const detail::Argument<Space, Sent> from(space, sent);
  const detail::Argument<Space, Received> to(space, received);
  check(sparclAllReduceMasked(from.data(), to.data(), to.count(), data_type<Value>(), op,
                              mask.get(), sparcl::detail::handle_of(feedback), &options, comm.get(),
                              detail::stream_of(from, to)),
        comm.get());
  to.give_back();
  return comm.report();
}

// sparclAllReduceTopK. feedback: of as many elements, Feedback(count,
// sparcl::kokkos::data_type<T>()); nullptr: what is not sent is discarded.
template <class Space, class Sent, class Received>
Report all_reduce_top_k(const Space& space, Comm& comm, const Sent& sent, const Received& received,
                        std::size_t k, Feedback* feedback,
                        const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
                        sparclRedOp_t op = sparclSum) {
  using Value = typename Received::value_type;
  static_assert(std::is_same_v<typename Sent::non_const_value_type, Value>);
  if (sent.extent(0) != received.extent(0))
    detail::refuse(comm, "all_reduce_top_k: sent and received differ in length");
  const detail::Argument<Space, Sent> from(space, sent);
  const detail::Argument<Space, Received> to(space, received);
  check(sparclAllReduceTopK(from.data(), to.data(), to.count(), k, data_type<Value>(), op,
                            sparcl::detail::handle_of(feedback), &options, comm.get(),
                            detail::stream_of(from, to)),
        comm.get());
  to.give_back();
  return comm.report();
}

// sparclAllReduceSparse of the first nnz entries, of a vector of `count` elements: indices in any
// order, also several times. Returns how many entries the sum has, which are in out_values and
// out_indices; their length is what they have room for.
template <class Space, class Values, class Indices, class OutValues, class OutIndices>
std::size_t all_reduce_sparse(
    const Space& space, Comm& comm, const Values& values, const Indices& indices, std::size_t nnz,
    std::size_t count, const OutValues& out_values, const OutIndices& out_indices,
    sparclRedOp_t op = sparclSum,
    const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER) {
  static_assert(std::is_same_v<typename Indices::non_const_value_type, std::uint64_t> &&
                std::is_same_v<typename OutIndices::value_type, std::uint64_t>);
  using Value = typename OutValues::value_type;
  static_assert(std::is_same_v<typename Values::non_const_value_type, Value>);
  if (nnz > values.extent(0) || nnz > indices.extent(0))
    detail::refuse(comm,
                   "all_reduce_sparse: nnz is more than the views of values and indices have");
  const std::size_t capacity = std::min(out_values.extent(0), out_indices.extent(0));
  const detail::Argument from(space, detail::first_of(values, nnz));
  const detail::Argument at(space, detail::first_of(indices, nnz));
  const detail::Argument to(space, detail::first_of(out_values, capacity), false);
  const detail::Argument to_at(space, detail::first_of(out_indices, capacity), false);
  std::size_t found = 0;
  check(sparclAllReduceSparse(from.data(), at.data(), nnz, count, to.data(), to_at.data(), &found,
                              capacity, data_type<Value>(), op, &options, comm.get(),
                              detail::stream_of(from, at, to, to_at)),
        comm.get());
  to.give_back(found);
  to_at.give_back(found);
  return found;
}

// sparclBroadcastDelta: base is the root's, what all hold in `weights` before; without elements
// where they hold nothing.
template <class Space, class Weights, class Base>
Report broadcast_delta(
    const Space& space, Comm& comm, const Weights& weights, const Base& base, int root,
    const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER) {
  using Value = typename Weights::value_type;
  static_assert(std::is_same_v<typename Base::non_const_value_type, Value>);
  const bool is_root = comm.rank() == root;
  if (is_root && base.extent(0) != 0 && base.extent(0) != weights.extent(0))
    detail::refuse(comm, "broadcast_delta: base and weights differ in length");
  const detail::Argument<Space, Weights> own(space, weights);
  const detail::Argument held(space, detail::first_of(base, is_root ? base.extent(0) : 0));
  check(sparclBroadcastDelta(own.data(), held.data(), own.count(), data_type<Value>(), root,
                             &options, comm.get(), detail::stream_of(own, held)),
        comm.get());
  own.give_back();
  return comm.report();
}

// A view becomes a tensor of the state, which must not outlive it: memory that the host reaches, or
// CUDA's device memory. Calls with the state know no instance: give them the stream if they take
// one, or fence before.
template <class View>
void add(State& state, const std::string& name, const View& view) {
  static_assert(detail::is_plain<View>(), "sparcl takes views of one dimension without strides");
  static_assert(
      detail::access_of<typename View::execution_space, View>() != detail::Access::kCopy,
      "a state's tensors are in memory that the host or CUDA reaches: give a mirror view");
  state.add(name, view.data(), data_type<typename View::value_type>(), {view.extent(0)});
}

}  // namespace sparcl::kokkos
