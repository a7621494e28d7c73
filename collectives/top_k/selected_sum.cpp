// Top-k in modes selected and global: a sparse sum of the ranks' selected entries. Mode global
// keeps the k largest sums.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/top_k/top_k_plan.hpp"
#include "src/base/number.hpp"

namespace sparcl::collectives::top_k {
namespace {

sparse::Support support_of(const kernels::KernelSet& kernels,
                           std::span<const std::uint64_t> indices) {
  sparse::Support support(kernels);
  std::vector<std::uint16_t> positions(sparse::kSupportFrame);
  while (!indices.empty()) {
    const std::uint64_t base = indices.front() / sparse::kSupportFrame * sparse::kSupportFrame;
    const std::size_t count = sparse::count_below(indices, base + sparse::kSupportFrame);
    kernels.entries.lower_indices(indices.data(), count, positions.data());
    support.append(base, positions.data(), count);
    indices = indices.subspan(count);
  }
  return support;
}

// The squares that return to the residual from the selected elements: whole values that are not
// kept, and rounding errors of the kept ones.
double returned_squares(const TopKPlan& plan, const std::byte* accumulators, const std::byte* sent,
                        std::size_t count, const std::vector<bool>* is_kept) {
  if (plan.wire.is_exact() && is_kept == nullptr) return 0;
  const std::size_t width = plan.accumulator_bytes();
  std::vector<std::byte> seen(count * width);
  widen_from_wire(plan.kernels, plan.wire, sent, count, seen.data());
  double squares = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double acc = load_number(plan.wire.accumulator, accumulators + i * width);
    const bool kept = is_kept == nullptr || (*is_kept)[i];
    const double rest =
        kept ? acc - load_number(plan.wire.accumulator, seen.data() + i * width) : acc;
    if (!std::isnan(rest)) squares += rest * rest;
  }
  return squares;
}

// The residual holds acc; subtracts the sent values.
Status subtract_sent(const TopKPlan& plan, const sparse::Support& support, const std::byte* sent) {
  std::vector<std::byte> accumulators(support.size() * plan.accumulator_bytes());
  SPARCL_RETURN_IF_ERROR(plan.arrays.take(support, accumulators.data()));
  if (plan.wire.is_exact()) return Status();
  (void)leave_rest(plan.kernels, plan.wire, sent, support.size(), accumulators.data());
  return plan.arrays.put(support, accumulators.data());
}

// Converts sums of sparse vectors from accumulators to the caller's elements.
Status write_sums(const TopKPlan& plan, const sparse::Support& support,
                  std::vector<std::byte>& sums) {
  const TopKCall& call = plan.call;
  const std::size_t width = element_bytes(call.datatype);
  std::vector<std::byte> elements(support.size() * width);
  if (call.is_mean)
    sparse::divide_accumulators(plan.kernels, call.datatype, sums.data(), support.size(),
                                static_cast<std::uint32_t>(plan.ranks));
  sparse::round_to_wire(plan.kernels, {plan.wire.accumulator, call.datatype}, sums.data(),
                        support.size(), elements.data());
  SPARCL_RETURN_IF_ERROR(plan.arrays.write(support, elements.data()));
  return keep_from_mean(plan, support, elements.data());
}

// Collects a sparse sum.
class CollectedSum final : public sparse_sum::SparseResult {
 public:
  CollectedSum(const kernels::KernelSet& kernels, std::size_t width, std::uint64_t count)
      : kernels_(kernels), width_(width), count_(count), support(kernels) {}
  void take(const Buffer&, const sparse::PartView& part, const sparse::BlockRun& run) override {
    sums.insert(sums.end(), part.values(), part.values() + part.entries() * width_);
    for (sparse::PartView view = part; !view.at_end(); view.next()) {
      if (view.is_bitmap()) scratch_.resize(run.block_elements() + kernels::kEntrySlack);
      const std::uint16_t* const positions = view.positions(kernels_, scratch_.data());
      const std::uint64_t base = run.base_of(view.block());
      is_inside = is_inside &&
                  base + *std::max_element(positions, positions + view.block_entries()) < count_;
      support.append(base, positions, view.block_entries());
    }
  }

 private:
  const kernels::KernelSet& kernels_;
  std::size_t width_;
  std::uint64_t count_;
  std::vector<std::uint16_t> scratch_;

 public:
  bool is_inside = true;  // all elements are inside the arrays
  sparse::Support support;
  std::vector<std::byte> sums;  // accumulators
};

// Keeps the k largest sums; on a tie the one with the lower index.
void keep_largest(const TopKPlan& plan, CollectedSum& sum) {
  if (sum.support.size() <= plan.call.k) return;
  sparse::Candidates candidates(plan.wire.accumulator);
  candidates.reserve(sum.support.size());
  for (const sparse::Support::Block& block : sum.support.blocks()) {
    std::memcpy(candidates.tail(), sum.sums.data() + block.first * plan.accumulator_bytes(),
                block.count * plan.accumulator_bytes());
    candidates.add(block.base, sum.support.positions(block), block.count);
  }
  (void)candidates.cut(0, plan.call.k);
  sum.support = support_of(plan.kernels, candidates.indices());
  sum.sums.assign(candidates.accumulators(),
                  candidates.accumulators() + candidates.size() * plan.accumulator_bytes());
}

// The entries of this rank whose elements are kept.
struct SentEntries {
  sparse::Support support;
  std::vector<std::byte> sent;
  std::vector<bool> is_kept;  // by selected element
};
SentEntries kept_entries(const TopKPlan& plan, const sparse::Selected& selected,
                         const std::vector<std::byte>& sent, const sparse::Support& kept) {
  SentEntries own{sparse::Support(plan.kernels), {}, std::vector<bool>(selected.indices.size())};
  const std::size_t width = element_bytes(plan.wire.sent);
  std::size_t i = 0;
  for (const sparse::Support::Block& block : kept.blocks()) {
    const std::uint16_t* const positions = kept.positions(block);
    for (std::size_t j = 0; j < block.count; ++j) {
      const std::uint64_t index = block.base + positions[j];
      while (i < selected.indices.size() && selected.indices[i] < index) ++i;
      if (i == selected.indices.size()) return own;
      if (selected.indices[i] != index) continue;
      own.support.append(index);
      own.is_kept[i] = true;
      own.sent.insert(own.sent.end(), sent.begin() + static_cast<std::ptrdiff_t>(i * width),
                      sent.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    }
  }
  return own;
}

}  // namespace

Task sum_selected(const CommContext& comm, std::uint32_t number, const TopKPlan& plan,
                  const sparse::Selected& selected, CallReport& report) {
  const TopKCall& call = plan.call;
  std::vector<std::byte> sent(selected.indices.size() * element_bytes(plan.wire.sent));
  round_to_wire(plan.kernels, plan.wire, selected.accumulators, selected.indices.size(),
                sent.data());
  CollectedSum collected(plan.kernels, plan.accumulator_bytes(), call.count);
  sparse_sum::SparseSumCall sum;
  sum.indices = selected.indices;
  sum.values = sent.data();
  sum.out = sparse::PartValues::kAccumulators;
  sum.count = call.count;
  sum.kind = {plan.wire.sent, {kernels::ReduceOp::kSum, false}, call.determinism};
  sum.form = plan.wire.form;
  sum.max_entries = call.k;
  sum.number = number;
  sum.result = &collected;
  const SumShape shape =
      sparse_sum::sum_shape(comm, call.count, plan.extents, element_bytes(plan.wire.sent),
                            plan.accumulator_bytes(), plan.wire.is_scaled());
  const sparse_sum::SparseSumPlan row =
      sparse_sum::plan_sparse_sum(comm, shape, call.determinism, call.algorithm);
  Task exchange = row.row->run(comm, sum, report.traffic);
  const Status alive = co_await exchange;
  if (!alive.ok()) co_return alive;

  if (!collected.is_inside) co_return sparse_sum::refuse_part(comm, sparse_sum::kNoPeer);
  comm.learned_top_k->share = static_cast<std::uint16_t>(
      std::lround(shape.share_of(collected.support.size()) * kWholeUnion));
  if (call.mode == TopKMode::kGlobal) keep_largest(plan, collected);
  if (call.feedback != nullptr) {
    const SentEntries own = call.mode == TopKMode::kGlobal
                                ? kept_entries(plan, selected, sent, collected.support)
                                : SentEntries{support_of(plan.kernels, selected.indices), sent, {}};
    if (keeps_sent(call)) {
      const Status left = subtract_sent(plan, own.support, own.sent.data());
      if (!left.ok()) co_return end_comm(comm, left);
    }
    std::vector<std::byte> decoded(own.support.size() * plan.accumulator_bytes());
    widen_from_wire(plan.kernels, plan.wire, own.sent.data(), own.support.size(), decoded.data());
    call.feedback->stats.returned_squares =
        returned_squares(plan, selected.accumulators, sent.data(), selected.indices.size(),
                         call.mode == TopKMode::kGlobal ? &own.is_kept : nullptr);
    call.feedback->stats.sent = own.support.size();
    call.feedback->stats.sent_mass =
        sparse::mass_of(plan.wire.accumulator, decoded.data(), own.support.size());
  }
  const Status written = write_sums(plan, collected.support, collected.sums);
  if (!written.ok()) co_return end_comm(comm, written);
  report.algorithm = row.row->name;
  report.seconds_predicted = row.seconds;
  report.wire =
      plan.wire.is_scaled() && !report.traffic.has_widened ? DataType::kInt8 : plan.wire.sent;
  report.nnz_out = collected.support.size();
  co_return Status();
}

}  // namespace sparcl::collectives::top_k
