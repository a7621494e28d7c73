#pragma once
// sparcl's calls on Kokkos views (C++20): in the order of the execution space's instance that is given. Views have one dimension
// and no strides. Where the host cannot reach a view's memory (CUDA, HIP, SYCL) its elements are copied to the host and back; else
// the call works on the view itself. Each call waits for what was enqueued before, and has done its own when it returns. The
// kernels of kokkos_kernels.hpp (what has changed, top-k, gather, scatter, error feedback) stay where the views are.

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "sparcl/kokkos_kernels.hpp"
#include "sparcl/sparcl.hpp"

namespace sparcl::kokkos {

namespace detail {

template <class View>
constexpr bool is_reachable() {
  return Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible;
}

// A view's elements where the host can reach them.
template <class View, bool kIsReachable = is_reachable<View>()>
class HostElements {
 public:
  using Value = typename View::value_type;  // const where the view's elements are
  using Plain = std::remove_const_t<Value>;

  template <class Space>
  HostElements(const Space& space, const View& view, bool has_content = true) : view_(view) {
    static_assert(is_plain<View>(), "sparcl takes views of one dimension without strides");
    if constexpr (!kIsReachable) {
      copy_ = Copy(Kokkos::ViewAllocateWithoutInitializing("sparcl::host"), view.extent(0));
      if (has_content) Kokkos::deep_copy(space, copy_, view);
    }
    space.fence();
  }

  std::span<Value> span() const {
    if constexpr (kIsReachable)
      return {view_.data(), view_.extent(0)};
    else
      return {copy_.data(), copy_.extent(0)};
  }

  // What a call has written.
  template <class Space>
  void give_back(const Space& space) const {
    if constexpr (!kIsReachable) {
      Kokkos::deep_copy(space, view_, copy_);
      space.fence();
    }
  }

 private:
  using Copy = Kokkos::View<Plain*, Kokkos::LayoutRight, Kokkos::HostSpace>;
  View view_;
  Copy copy_;
};

}  // namespace detail

// sparclAllReduceMasked: received has as many elements as `sent`, and may be it; those outside the mask are left as they were.
template <class Space, class Sent, class Received>
Report all_reduce_masked(const Space& space, Comm& comm, const Sent& sent, const Received& received, const Mask& mask,
                         sparclRedOp_t op = sparclSum) {
  const detail::HostElements<Sent> from(space, sent);
  const detail::HostElements<Received> to(space, received);
  const Report report = comm.all_reduce_masked<typename Received::value_type>(from.span(), to.span(), mask, op);
  to.give_back(space);
  return report;
}

// sparclAllReduceTopKEx. feedback: of as many elements, on the host; nullptr: what is not sent is discarded.
template <class Space, class Sent, class Received>
Report all_reduce_top_k(const Space& space, Comm& comm, const Sent& sent, const Received& received, std::size_t k,
                        Feedback* feedback, const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
                        sparclRedOp_t op = sparclSum) {
  const detail::HostElements<Sent> from(space, sent);
  const detail::HostElements<Received> to(space, received);
  const Report report = comm.all_reduce_top_k<typename Received::value_type>(from.span(), to.span(), k, feedback, options, op);
  to.give_back(space);
  return report;
}

// sparclAllReduceSparse of the first nnz entries, of a vector of `count` elements: indices in any order, also several times.
// Returns how many entries the sum has, which are in out_values and out_indices; their length is what they have room for.
template <class Space, class Values, class Indices, class OutValues, class OutIndices>
std::size_t all_reduce_sparse(const Space& space, Comm& comm, const Values& values, const Indices& indices, std::size_t nnz,
                              std::size_t count, const OutValues& out_values, const OutIndices& out_indices,
                              sparclRedOp_t op = sparclSum) {
  static_assert(std::is_same_v<typename Indices::non_const_value_type, std::uint64_t> &&
                std::is_same_v<typename OutIndices::value_type, std::uint64_t>);
  using Value = typename OutValues::value_type;
  static_assert(std::is_same_v<typename Values::non_const_value_type, Value>);
  const detail::HostElements<Values> from(space, values);
  const detail::HostElements<Indices> at(space, indices);
  const detail::HostElements<OutValues> to(space, out_values, false);
  const detail::HostElements<OutIndices> to_at(space, out_indices, false);
  if (nnz > values.extent(0) || nnz > indices.extent(0)) {  // the others get an error instead of waiting
    const char* const why = "all_reduce_sparse: nnz is more than the views of values and indices have";
    (void)sparclCommRefuse(comm.get(), why);
    throw Error(sparclInvalidArgument, why);
  }
  const std::size_t capacity = std::min(out_values.extent(0), out_indices.extent(0));
  std::size_t found = 0;
  const sparclResult_t result =
      sparclAllReduceSparse(from.span().data(), at.span().data(), nnz, count, to.span().data(), to_at.span().data(), &found,
                            capacity, data_type<Value>(), op, comm.get(), nullptr);
  check(result, comm.get());
  to.give_back(space);
  to_at.give_back(space);
  return found;
}

// sparclBroadcastDelta: base is the root's, what all hold in `weights` before; without elements where they hold nothing.
template <class Space, class Weights, class Base>
Report broadcast_delta(const Space& space, Comm& comm, const Weights& weights, const Base& base, int root) {
  const detail::HostElements<Weights> own(space, weights);
  const detail::HostElements<Base> held(space, base);
  const Report report = comm.broadcast_delta<typename Weights::value_type>(own.span(), held.span(), root);
  own.give_back(space);
  return report;
}

// A view becomes a tensor of the state, which must not outlive it. Memory that the host can reach alone.
template <class View>
void add(State& state, const std::string& name, const View& view) {
  static_assert(detail::is_reachable<View>(), "a state's tensors are in memory that the host can reach: give a mirror view");
  static_assert(detail::is_plain<View>());
  state.add(name, std::span(view.data(), view.extent(0)), {view.extent(0)});
}

}  // namespace sparcl::kokkos
