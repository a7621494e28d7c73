// Broadcast of a sparse vector (sparclBroadcastSparse).
#include <fmt/format.h>

#include <algorithm>

#include "collectives/broadcast/broadcast.hpp"
#include "src/codec/sparse_vector.hpp"

namespace sparcl::collectives::broadcast {
namespace {

constexpr std::uint64_t kEntriesPerStep = 32768;   // about 100 us of coding. Heuristic
constexpr std::size_t kIndicesPerCheck = 262'144;  // the same
constexpr std::uint64_t kSparseBlocksPerStep = 16;
constexpr std::uint64_t kMaxEntries =
    static_cast<std::uint64_t>(PTRDIFF_MAX) / sizeof(std::uint64_t);  // of an array of indices

class SparseSource final : public StreamSource {
 public:
  SparseSource(const SparseCall& call, const kernels::KernelSet& kernels)
      : indices_(call.indices, call.nnz), encoder_(indices_, call.values, call.datatype, kernels) {}

  // Indices and their number are checked here and not before the call. If ranks name different
  // roots, all ranks then get that error.
  Status produce(codec::ByteSink& sink) override {
    if (indices_.size() > kMaxEntries) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("*nnz is {}: no array in memory has so many indices", indices_.size()));
    }
    return checked_ < indices_.size() ? check_more() : encoder_.step(kEntriesPerStep, sink);
  }
  bool finished() const override { return encoder_.finished(); }
  void commit() override {}

 private:
  Status check_more() {
    const std::size_t first = checked_ > 0 ? checked_ - 1 : 0;
    const std::size_t end = std::min<std::size_t>(checked_ + kIndicesPerCheck, indices_.size());
    for (std::size_t i = first; i + 1 < end; ++i) {
      if (indices_[i] < indices_[i + 1]) continue;
      return Status(Code::kInvalidArgument,
                    fmt::format("indices must ascend strictly: indices[{}] = {} is followed by {}",
                                i, indices_[i], indices_[i + 1]));
    }
    checked_ = end;
    return Status();
  }

  std::span<const std::uint64_t> indices_;
  std::size_t checked_ = 0;
  codec::SparseEncoder encoder_;
};

class SparseTarget final : public StreamTarget {
 public:
  SparseTarget(SparseCall& call, const kernels::KernelSet& kernels)
      : call_(call), decoder_(call.datatype, kernels) {}

  Status check(const Staging& stream, std::uint64_t available, bool& more) override {
    return decoder_.advance(stream, available, kSparseBlocksPerStep, more);
  }

  Status finish(std::uint64_t stream_bytes) override {
    SPARCL_RETURN_IF_ERROR(decoder_.finish(stream_bytes));
    call_.nnz = decoder_.nnz();
    if (call_.nnz <= call_.capacity) return Status();
    return Status(Code::kTruncated,
                  fmt::format("{} entries do not fit a capacity of {}", call_.nnz, call_.capacity));
  }

  Status commit(const Staging& stream) override {
    return decoder_.extract(stream, call_.indices, call_.values);
  }

 private:
  SparseCall& call_;
  codec::SparseDecoder decoder_;
};

}  // namespace

Task broadcast_sparse(const CommContext& comm, std::uint32_t number, SparseCall& call,
                      CallReport& report) {
  const bool is_root = comm.engine->transport().rank() == call.root;
  BroadcastCall pattern;
  pattern.root = call.root;
  pattern.refusal = call.refusal;
  pattern.is_blocking = call.is_blocking;
  // A rank that wrongly takes itself for the root has only the entries that its output argument
  // happened to hold.
  pattern.encodes_ahead = call.nnz <= call.capacity;
  pattern.fingerprint.operation = static_cast<std::uint32_t>(CallKind::kBroadcastSparse);
  pattern.fingerprint.datatype = static_cast<std::uint32_t>(call.datatype);
  Status status;
  if (!pattern.refusal.ok()) {
    Task refusing = run_broadcast(comm, number, pattern, report);
    status = co_await refusing;
  } else if (is_root) {
    SparseSource source(call, *comm.kernels);
    pattern.source = &source;
    Task sending = run_broadcast(comm, number, pattern, report);
    status = co_await sending;
  } else {
    SparseTarget receiver(call, *comm.kernels);
    pattern.target = &receiver;
    Task receiving = run_broadcast(comm, number, pattern, report);
    status = co_await receiving;
  }
  report.nnz_in = report.nnz_out = call.nnz;
  report.dense_bytes = call.nnz * (element_bytes(call.datatype) + sizeof(std::uint64_t));
  co_return status;
}

}  // namespace sparcl::collectives::broadcast
