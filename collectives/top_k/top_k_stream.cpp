#include "collectives/top_k/top_k_stream.hpp"

#include <algorithm>
#include <bit>

#include "src/base/stage_range.hpp"

namespace sparcl::collectives::top_k {
namespace {

// Gathering all ranks' values of the union sends P times as many as reducing them. Heuristic: up to
// twice the array, as a dense all-reduce sends.
constexpr std::uint64_t kMaxGathered = 2;

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}

}  // namespace

bool union_is_reduced(const TopKCall& call) { return call.determinism != Determinism::kCanonical; }

bool takes_gpus(const TopKCall& call, int ranks) {
  if (!call.tensors.empty()) return false;
  if (call.mode == TopKMode::kGlobal) return call.datatype != DataType::kUint64;
  if (call.mode == TopKMode::kSelected || union_is_reduced(call)) return true;
  const auto all = static_cast<std::uint64_t>(ranks);
  return product(std::min(call.count, product(call.k, all)), all) <= kMaxGathered * call.count;
}

StreamTopK::StreamTopK(DeviceCalls& calls, const TopKCall& call, const sparse::WireType& wire,
                       int ranks)
    : calls_(calls),
      kernels_(calls.kernels()),
      call_(call),
      wire_(wire),
      ranks_(static_cast<std::uint64_t>(ranks)),
      most_(call.k * ranks_),
      max_union_(std::min(call.count, most_)) {
  lay_out();
}

std::size_t StreamTopK::place(std::uint64_t bytes) {
  const std::size_t begin = end_;
  end_ += (bytes + 255) / 256 * 256;
  return begin;
}

void StreamTopK::lay_out() {
  const bool is_union = call_.mode == TopKMode::kUnion;
  workspace_ = place(workspace_bytes());
  // A count, padded to 16 bytes, indices, values.
  block_bytes_ = (16 + call_.k * (sizeof(std::uint64_t) + (is_union ? 0 : width())) + 15) / 16 * 16;
  block_ = place(block_bytes_);
  blocks_ = place(block_bytes_ * ranks_);
  for (List& list : merged_) {
    list = {place(ranks_ * sizeof(std::uint64_t)), place(most_ * sizeof(std::uint64_t)), 0, most_};
    if (!is_union) list.values = place(most_ * width());
  }
  if (is_union || !wire_.is_exact())
    accumulators_ = place((is_union ? max_union_ : call_.k) * width());
  if (is_union) {
    sent_ = wire_.is_exact() ? accumulators_ : place(max_union_ * width());
    rows_ = place(max_union_ * width() * (union_is_reduced(call_) ? 1 : ranks_));
  }
  if (wire_.form == sparse::ValueForm::kScaled8) {
    const std::uint64_t groups = kernels::scaled_groups(is_union ? max_union_ : call_.k);
    const std::uint64_t values = groups * kernels::kDeviceScaledGroup;
    scaled_ = {place(values), place(groups * sizeof(std::uint16_t)), place(values * sizeof(float)),
               place(sizeof(std::uint64_t)), groups};
  }
  if (call_.mode == TopKMode::kGlobal)
    kept_ = {place(sizeof(std::uint64_t)), place(call_.k * sizeof(std::uint64_t)),
             place(call_.k * width()), call_.k};
}

std::size_t StreamTopK::workspace_bytes() const {
  std::size_t most = kernels_.top_k.workspace_bytes(call_.count, call_.k, call_.datatype);
  for (std::uint64_t half = 1; half < ranks_; half *= 2)
    most = std::max(most, kernels_.entries.merge_workspace_bytes(
                              half * call_.k, std::min(half, ranks_ - half) * call_.k));
  if (call_.mode == TopKMode::kGlobal)
    most = std::max(most, kernels_.sums.keep_largest_workspace_bytes(most_, call_.k));
  return most;
}

kernels::DeviceEntries StreamTopK::entries(const List& list, bool with_values) const {
  return {static_cast<std::uint64_t*>(at(list.indices)), with_values ? at(list.values) : nullptr,
          static_cast<std::uint64_t*>(at(list.count))};
}

StreamTopK::List StreamTopK::own_list(std::size_t begin) const {
  return {begin, begin + 16, begin + 16 + call_.k * sizeof(std::uint64_t), call_.k};
}

Status StreamTopK::enqueue(void* memory, void* residual) {
  memory_ = static_cast<std::byte*>(memory);
  residual_ = static_cast<std::byte*>(residual);
  {
    const StageRange range("select");
    SPARCL_RETURN_IF_ERROR(select());
  }
  List sum{};
  {
    const StageRange range("exchange");
    SPARCL_RETURN_IF_ERROR(exchange());
    SPARCL_RETURN_IF_ERROR(merge(0, ranks_, 0, sum));
    if (call_.mode == TopKMode::kUnion) SPARCL_RETURN_IF_ERROR(sum_at_union(sum));
    if (call_.mode == TopKMode::kGlobal) SPARCL_RETURN_IF_ERROR(keep_largest(sum));
  }
  const StageRange range("scatter");
  SPARCL_RETURN_IF_ERROR(leave_sent(sum));
  return write(sum);
}

// Makes the block for the other ranks. In mode selected, exact values that are sent leave the
// residual at once.
Status StreamTopK::select() {
  const List own = own_list(block_);
  kernels::TopK selection{};
  selection.values = call_.send;
  selection.residual = residual_;
  selection.count = call_.count;
  selection.k = call_.k;
  selection.clear_sent =
      call_.mode == TopKMode::kSelected && wire_.is_exact() && call_.kept == TopKResidual::kSent;
  selection.indices = static_cast<std::uint64_t*>(at(own.indices));
  selection.found = static_cast<std::uint64_t*>(at(own.count));
  if (has_values()) selection.taken = at(wire_.is_exact() ? own.values : accumulators_);
  SPARCL_RETURN_IF_ERROR(kernels_.top_k.run(selection, call_.datatype, at(workspace_),
                                            workspace_bytes(), call_.stream));
  if (!has_values() || wire_.is_exact()) return Status();
  return round(accumulators_, own.count, call_.k, own.values);
}

Status StreamTopK::round(std::size_t values, std::size_t count, std::uint64_t capacity,
                         std::size_t rounded) {
  if (!wire_.is_scaled())
    return kernels_.sums.round(at(values), capacity, wire_.sent, at(rounded), call_.stream);
  if (wire_.form != sparse::ValueForm::kScaled8)
    return kernels_.round_groups(static_cast<const float*>(at(values)),
                                 static_cast<const std::uint64_t*>(at(count)), capacity,
                                 wire_.form == sparse::ValueForm::kScaled4 ? 4 : 2,
                                 static_cast<float*>(at(rounded)), call_.stream);
  // The codes themselves are not sent: entries are sent as accumulators.
  const kernels::DeviceScaledValues codes{static_cast<std::int8_t*>(at(scaled_.codes)),
                                          static_cast<std::uint16_t*>(at(scaled_.exponents)),
                                          static_cast<float*>(at(scaled_.exact)), scaled_.groups,
                                          static_cast<std::uint64_t*>(at(scaled_.exact_count))};
  return kernels_.encode_scaled(static_cast<const float*>(at(values)),
                                static_cast<const std::uint64_t*>(at(count)), capacity, codes,
                                static_cast<float*>(at(rounded)), call_.stream);
}

Status StreamTopK::exchange() {
  SPARCL_RETURN_IF_ERROR(
      calls_.engine().all_gather(at(block_), at(blocks_), block_bytes_, call_.stream));
  return kernels_.sums.check_lists({at(blocks_), ranks_, block_bytes_, call_.k}, call_.count,
                                   call_.stream);
}

// The sum T(first, end) of the ranks' entries. Lists of one depth are adjacent in memory; those of
// the next depth are elsewhere.
Status StreamTopK::merge(std::uint64_t first, std::uint64_t end, unsigned depth, List& sum) {
  if (end - first == 1) {
    sum = own_list(blocks_ + first * block_bytes_);
    return Status();
  }
  const std::uint64_t middle = first + std::bit_floor(end - first - 1);
  List a, b;
  SPARCL_RETURN_IF_ERROR(merge(first, middle, depth + 1, a));
  SPARCL_RETURN_IF_ERROR(merge(middle, end, depth + 1, b));
  const List& all = merged_[depth % 2];
  const std::size_t before = first * call_.k;
  sum = {all.count + first * sizeof(std::uint64_t), all.indices + before * sizeof(std::uint64_t),
         all.values + before * width(), (end - first) * call_.k};
  return kernels_.entries.merge(entries(a, has_values()), a.capacity, entries(b, has_values()),
                                b.capacity, entries(sum, has_values()), wire_.accumulator,
                                at(workspace_), workspace_bytes(), call_.stream);
}

// Sums every rank's values at the union.
Status StreamTopK::sum_at_union(List& sum) {
  sum.capacity = max_union_;
  sum.values = accumulators_;
  const void* const array = residual_ != nullptr ? residual_ : call_.send;
  SPARCL_RETURN_IF_ERROR(kernels_.entries.gather(array, residual_ != nullptr, call_.datatype,
                                                 entries(sum, true), max_union_, call_.stream));
  if (!wire_.is_exact()) SPARCL_RETURN_IF_ERROR(round(accumulators_, sum.count, max_union_, sent_));
  if (max_union_ == 0) return Status();
  if (union_is_reduced(call_)) {
    SPARCL_RETURN_IF_ERROR(calls_.engine().all_reduce(at(sent_), at(rows_), max_union_,
                                                      wire_.accumulator, transport::EngineOp::kSum,
                                                      call_.stream));
  } else {
    SPARCL_RETURN_IF_ERROR(
        calls_.engine().all_gather(at(sent_), at(rows_), max_union_ * width(), call_.stream));
    SPARCL_RETURN_IF_ERROR(kernels_.sums.sum_rows(at(rows_), static_cast<std::uint32_t>(ranks_),
                                                  max_union_, wire_.accumulator, call_.stream));
  }
  return Status();
}

Status StreamTopK::keep_largest(List& sum) {
  SPARCL_RETURN_IF_ERROR(kernels_.sums.keep_largest(
      entries(sum, true), sum.capacity, call_.k, entries(kept_, true), wire_.accumulator,
      at(workspace_), workspace_bytes(), call_.stream));
  sum = kept_;
  return Status();
}

// Subtracts this rank's sent and kept values from the residual. sum: its indices; in mode union its
// values are acc.
Status StreamTopK::leave_sent(const List& sum) {
  if (residual_ == nullptr || call_.kept != TopKResidual::kSent) return Status();
  if (call_.mode == TopKMode::kUnion)
    return kernels_.sums.leave_rest(entries(sum, true), sum.capacity, at(sent_), nullptr, 0,
                                    wire_.accumulator, residual_, call_.stream);
  if (call_.mode == TopKMode::kSelected && wire_.is_exact()) return Status();
  List own = own_list(block_);
  const void* const seen = at(own.values);
  if (!wire_.is_exact()) own.values = accumulators_;
  const kernels::DeviceEntries kept = entries(sum, false);
  return kernels_.sums.leave_rest(entries(own, true), call_.k, seen,
                                  call_.mode == TopKMode::kGlobal ? &kept : nullptr, sum.capacity,
                                  wire_.accumulator, residual_, call_.stream);
}

Status StreamTopK::write(const List& sum) {
  List result = sum;
  if (call_.mode == TopKMode::kUnion) result.values = rows_;
  const kernels::DeviceEntries sums = entries(result, true);
  const auto ranks = static_cast<std::uint32_t>(ranks_), divisor = call_.is_mean ? ranks : 1;
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_zeros(call_.receive, call_.count * element_bytes(call_.datatype), call_.stream));
  SPARCL_RETURN_IF_ERROR(kernels_.entries.scatter(sums, result.capacity, divisor, call_.receive,
                                                  call_.datatype, call_.stream));
  if (residual_ == nullptr || call_.kept != TopKResidual::kMean) return Status();
  return kernels_.sums.leave_mean(sums, result.capacity, divisor, call_.is_mean ? 1 : ranks,
                                  call_.datatype, residual_, call_.stream);
}

}  // namespace sparcl::collectives::top_k
