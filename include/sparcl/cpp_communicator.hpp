#pragma once
// Communicators and their collectives.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "sparcl/collectives.h"
#include "sparcl/cpp_basics.hpp"
#include "sparcl/cpp_objects.hpp"

namespace sparcl {

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

  // Arrays of calls are std::vector, std::array, C arrays or std::span. Arrays that are written
  // have no const elements. Arrays of start_... stay as they are until the request is done. Options
  // are those of the C call; by default, its initialiser.

  // base: the root's, empty if the ranks hold nothing; ignored on the others.
  template <class T>
  Report broadcast_delta(
      std::span<T> weights, std::span<const std::type_identity_t<T>> base, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    check_base(weights.size(), base.size(), root,
               "broadcast_delta: base and weights differ in length");
    check(sparclBroadcastDelta(weights.data(), base.data(), weights.size(), data_type<T>(), root,
                               &options, get(), stream),
          get());
    return report();
  }
  template <detail::IsArray Weights>
  Report broadcast_delta(
      Weights&& weights, detail::InputOf<Weights> base, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    return broadcast_delta(detail::written(weights), base, root, options, stream);
  }
  template <class T>
  Request start_broadcast_delta(
      std::span<T> weights, std::span<const std::type_identity_t<T>> base, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    check_base(weights.size(), base.size(), root,
               "start_broadcast_delta: base and weights differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastDelta(weights.data(), base.data(), weights.size(), data_type<T>(), root,
                                &options, get(), stream, &request),
          get());
    return Request(request, get());
  }
  template <detail::IsArray Weights>
  Request start_broadcast_delta(
      Weights&& weights, detail::InputOf<Weights> base, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    return start_broadcast_delta(detail::written(weights), base, root, options, stream);
  }

  Report broadcast_update(State& state, std::uint64_t version, int root,
                          const sparclUpdateOptions_t& options = SPARCL_UPDATE_OPTIONS_INITIALIZER,
                          sparclStream_t stream = nullptr) {
    check(sparclBroadcastUpdate(state.get(), version, root, &options, get(), stream), get());
    return report();
  }
  Request start_broadcast_update(
      State& state, std::uint64_t version, int root,
      const sparclUpdateOptions_t& options = SPARCL_UPDATE_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastUpdate(state.get(), version, root, &options, get(), stream, &request),
          get());
    return Request(request, get(), state.shared());
  }

  // Vectors are resized to what the root sends; `capacity` bounds it on the other ranks.
  template <class T>
  Report broadcast_sparse(
      std::vector<T>& values, std::vector<std::uint64_t>& indices, std::size_t capacity, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER) {
    const bool is_root = rank() == root;
    std::size_t nnz = indices.size();
    if (is_root && values.size() != nnz)
      refuse("broadcast_sparse: values and indices differ in length");
    if (!is_root) make_room(values, indices, capacity);
    const sparclResult_t result =
        sparclBroadcastSparse(values.data(), indices.data(), &nnz, capacity, data_type<T>(), root,
                              &options, get(), nullptr);
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
  Request start_broadcast_sparse(
      Values&& values, std::span<std::uint64_t> indices, std::size_t& nnz, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    return start_broadcast_sparse(detail::written(values), indices, nnz, root, options, stream);
  }
  template <class T>
  Request start_broadcast_sparse(
      std::span<T> values, std::span<std::uint64_t> indices, std::size_t& nnz, int root,
      const sparclBroadcastOptions_t& options = SPARCL_BROADCAST_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    if (values.size() != indices.size())
      refuse("start_broadcast_sparse: values and indices differ in length");
    if (rank() == root && nnz > values.size())
      refuse("start_broadcast_sparse: nnz is more than the arrays have");
    sparclRequest_t request = nullptr;
    check(sparclIBroadcastSparse(values.data(), indices.data(), &nnz, values.size(), data_type<T>(),
                                 root, &options, get(), stream, &request),
          get());
    return Request(request, get());
  }

  // received: as long as `sent`, and may be it. By default elements outside the mask keep this
  // rank's own values: in place the ranks' arrays then differ. options.outside =
  // sparclOutsideZero writes zeros there. feedback: of as many elements; nullptr: the rest is
  // discarded.
  template <class T>
  Report all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received,
                           const Mask& mask, Feedback* feedback,
                           const sparclMaskedOptions_t& options = SPARCL_MASKED_OPTIONS_INITIALIZER,
                           sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    if (sent.size() != received.size())
      refuse("all_reduce_masked: sent and received differ in length");
    check(sparclAllReduceMasked(sent.data(), received.data(), sent.size(), data_type<T>(), op,
                                mask.get(), detail::handle_of(feedback), &options, get(), stream),
          get());
    return report();
  }
  template <detail::IsArray Received>
  Report all_reduce_masked(detail::InputOf<Received> sent, Received&& received, const Mask& mask,
                           Feedback* feedback,
                           const sparclMaskedOptions_t& options = SPARCL_MASKED_OPTIONS_INITIALIZER,
                           sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return all_reduce_masked(sent, detail::written(received), mask, feedback, options, op, stream);
  }
  template <class T>
  Report all_reduce_masked(std::span<const std::type_identity_t<T>> sent, std::span<T> received,
                           const Mask& mask, sparclRedOp_t op = sparclSum,
                           sparclStream_t stream = nullptr) {
    return all_reduce_masked(sent, received, mask, nullptr, SPARCL_MASKED_OPTIONS_INITIALIZER, op,
                             stream);
  }
  template <detail::IsArray Received>
  Report all_reduce_masked(detail::InputOf<Received> sent, Received&& received, const Mask& mask,
                           sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return all_reduce_masked(sent, detail::written(received), mask, op, stream);
  }
  template <class T>
  Request start_all_reduce_masked(
      std::span<const std::type_identity_t<T>> sent, std::span<T> received, const Mask& mask,
      Feedback* feedback, const sparclMaskedOptions_t& options = SPARCL_MASKED_OPTIONS_INITIALIZER,
      sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    if (sent.size() != received.size())
      refuse("start_all_reduce_masked: sent and received differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceMasked(sent.data(), received.data(), sent.size(), data_type<T>(), op,
                                 mask.get(), detail::handle_of(feedback), &options, get(), stream,
                                 &request),
          get());
    return Request(request, get(), mask.shared(),
                   feedback != nullptr ? feedback->shared() : nullptr);
  }
  template <detail::IsArray Received>
  Request start_all_reduce_masked(
      detail::InputOf<Received> sent, Received&& received, const Mask& mask, Feedback* feedback,
      const sparclMaskedOptions_t& options = SPARCL_MASKED_OPTIONS_INITIALIZER,
      sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return start_all_reduce_masked(sent, detail::written(received), mask, feedback, options, op,
                                   stream);
  }
  template <class T>
  Request start_all_reduce_masked(std::span<const std::type_identity_t<T>> sent,
                                  std::span<T> received, const Mask& mask,
                                  sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return start_all_reduce_masked(sent, received, mask, nullptr, SPARCL_MASKED_OPTIONS_INITIALIZER,
                                   op, stream);
  }
  template <detail::IsArray Received>
  Request start_all_reduce_masked(detail::InputOf<Received> sent, Received&& received,
                                  const Mask& mask, sparclRedOp_t op = sparclSum,
                                  sparclStream_t stream = nullptr) {
    return start_all_reduce_masked(sent, detail::written(received), mask, op, stream);
  }

  // Sums sparse vectors of `count` elements. out_values and out_indices get the union's entries and
  // its length. They grow as needed: if the union does not fit the smaller capacity() of a rank's
  // vectors, all ranks make the call once more, with room for it. Therefore either all ranks use
  // this overload for the same call, or none does.
  template <class T>
  Report all_reduce_sparse(
      std::span<const T> values, std::span<const std::uint64_t> indices, std::size_t count,
      std::vector<T>& out_values, std::vector<std::uint64_t>& out_indices,
      sparclRedOp_t op = sparclSum,
      const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER) {
    const std::size_t room = std::min(out_values.capacity(), out_indices.capacity());
    std::size_t nnz = 0;
    sparclResult_t result =
        sum_into(values, indices, count, room, out_values, out_indices, nnz, op, options);
    if (result == sparclTruncated) {
      const std::size_t needed = std::max(room, nnz);
      result = sum_into(values, indices, count, needed, out_values, out_indices, nnz, op, options);
    }
    check(result, get());
    return report();
  }
  // The same with room for `capacity` entries, and no second call: sparclTruncated on every rank
  // where the union has more than any rank's capacity; the report's nnz_out says how many.
  template <class T>
  Report all_reduce_sparse(
      std::span<const T> values, std::span<const std::uint64_t> indices, std::size_t count,
      std::vector<T>& out_values, std::vector<std::uint64_t>& out_indices, std::size_t capacity,
      sparclRedOp_t op = sparclSum,
      const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER) {
    std::size_t nnz = 0;
    check(sum_into(values, indices, count, capacity, out_values, out_indices, nnz, op, options),
          get());
    return report();
  }
  template <detail::IsRange Values, class T>
  requires(!std::is_same_v<Values, std::span<const T>>) Report
      all_reduce_sparse(const Values& values, std::span<const std::uint64_t> indices,
                        std::size_t count, std::vector<T>& out_values,
                        std::vector<std::uint64_t>& out_indices, sparclRedOp_t op = sparclSum,
                        const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER) {
    return all_reduce_sparse(std::span<const T>(values), indices, count, out_values, out_indices,
                             op, options);
  }
  template <detail::IsRange Values, class T>
  requires(!std::is_same_v<Values, std::span<const T>>) Report
      all_reduce_sparse(const Values& values, std::span<const std::uint64_t> indices,
                        std::size_t count, std::vector<T>& out_values,
                        std::vector<std::uint64_t>& out_indices, std::size_t capacity,
                        sparclRedOp_t op = sparclSum,
                        const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER) {
    return all_reduce_sparse(std::span<const T>(values), indices, count, out_values, out_indices,
                             capacity, op, options);
  }
  // out_values and out_indices: their length is their capacity. nnz: how many entries the union
  // has; it must stay until the request is done.
  template <detail::IsArray OutValues>
  Request start_all_reduce_sparse(
      detail::InputOf<OutValues> values, std::span<const std::uint64_t> indices, std::size_t count,
      OutValues&& out_values, std::span<std::uint64_t> out_indices, std::size_t& nnz,
      sparclRedOp_t op = sparclSum,
      const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    return start_all_reduce_sparse(values, indices, count, detail::written(out_values), out_indices,
                                   nnz, op, options, stream);
  }
  template <class T>
  Request start_all_reduce_sparse(
      std::span<const std::type_identity_t<T>> values, std::span<const std::uint64_t> indices,
      std::size_t count, std::span<T> out_values, std::span<std::uint64_t> out_indices,
      std::size_t& nnz, sparclRedOp_t op = sparclSum,
      const sparclSparseOptions_t& options = SPARCL_SPARSE_OPTIONS_INITIALIZER,
      sparclStream_t stream = nullptr) {
    if (values.size() != indices.size())
      refuse("start_all_reduce_sparse: values and indices differ in length");
    if (out_values.size() != out_indices.size())
      refuse("start_all_reduce_sparse: out_values and out_indices differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceSparse(values.data(), indices.data(), values.size(), count,
                                 out_values.data(), out_indices.data(), &nnz, out_values.size(),
                                 data_type<T>(), op, &options, get(), stream, &request),
          get());
    return Request(request, get());
  }

  // One round of an aggregator: see sparclAggregate. out_values and out_indices get the result;
  // room: for its entries. aggregator: nullptr for a mean by weight, without a state.
  template <class T>
  Report aggregate(std::span<const T> values, std::span<const std::uint64_t> indices,
                   std::size_t count, double weight, std::vector<T>& out_values,
                   std::vector<std::uint64_t>& out_indices, std::size_t room,
                   const Aggregator* aggregator = nullptr) {
    if (values.size() != indices.size()) refuse("aggregate: values and indices differ in length");
    sparclAggregateOptions_t options = SPARCL_AGGREGATE_OPTIONS_INITIALIZER;
    options.aggregator = aggregator != nullptr ? aggregator->get() : nullptr;
    out_values.resize(room);
    out_indices.resize(room);
    std::size_t nnz = 0;
    check(sparclAggregate(values.data(), indices.data(), values.size(), count, weight,
                          out_values.data(), out_indices.data(), &nnz, room, data_type<T>(),
                          &options, get(), nullptr),
          get());
    out_values.resize(nnz);
    out_indices.resize(nnz);
    return report();
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
    check(sparclAllReduceTopK(sent.data(), received.data(), sent.size(), k, data_type<T>(), op,
                              detail::handle_of(feedback), &options, get(), stream),
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
      sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    if (sent.size() != received.size())
      refuse("start_all_reduce_top_k: sent and received differ in length");
    sparclRequest_t request = nullptr;
    check(sparclIAllReduceTopK(sent.data(), received.data(), sent.size(), k, data_type<T>(), op,
                               detail::handle_of(feedback), &options, get(), stream, &request),
          get());
    return Request(request, get(), feedback != nullptr ? feedback->shared() : nullptr);
  }
  template <detail::IsArray Received>
  Request start_all_reduce_top_k(
      detail::InputOf<Received> sent, Received&& received, std::size_t k, Feedback* feedback,
      const sparclTopKOptions_t& options = SPARCL_TOPK_OPTIONS_INITIALIZER,
      sparclRedOp_t op = sparclSum, sparclStream_t stream = nullptr) {
    return start_all_reduce_top_k(sent, detail::written(received), k, feedback, options, op,
                                  stream);
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
                          sparclRedOp_t op, const sparclSparseOptions_t& options) {
    if (values.size() != indices.size())
      refuse("all_reduce_sparse: values and indices differ in length");
    const std::size_t values_before = out_values.size(), indices_before = out_indices.size();
    make_room(out_values, out_indices, std::max({room, values_before, indices_before}));
    const sparclResult_t result = sparclAllReduceSparse(
        values.data(), indices.data(), values.size(), count, out_values.data(), out_indices.data(),
        &nnz, room, data_type<T>(), op, &options, get(), nullptr);
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
