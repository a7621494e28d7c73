#include "collectives/sparse_sum/sparse_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "src/base/stage_range.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

constexpr std::array kSumTable{
    SparseSumRow{"gather", true, gather_seconds, gather_scratch_bytes, sum_by_gather},
    SparseSumRow{"doubling", false, doubling_seconds, doubling_scratch_bytes, sum_by_doubling},
    SparseSumRow{"split", true, split_seconds, split_scratch_bytes, sum_by_split},
    SparseSumRow{"two_level", false, two_level_seconds, two_level_scratch_bytes, sum_by_two_levels,
                 two_level_is_possible},
};

bool is_possible(const SparseSumRow& row, const SumShape& shape, Determinism determinism) {
  return row.is_possible == nullptr || row.is_possible(shape, determinism);
}

std::vector<std::string_view> names() { return comm::row_names(kSumTable); }

}  // namespace

const comm::AlgorithmChoice kSparseSumAlgorithms{
    "ALGO_ALLREDUCE_SPARSE",
    "Algorithm that sums sparse vectors. auto: the algorithm with the smallest predicted time. "
    "two_level falls back to auto unless some node holds several ranks.",
    names};

std::span<const SparseSumRow> sparse_sum_table() { return kSumTable; }

std::uint8_t forced_row(std::string_view name) { return comm::forced_row(kSumTable, name); }

std::string_view forced_row_name(std::uint8_t row) { return comm::forced_name(kSumTable, row); }

SparseSumPlan plan_sparse_sum(const LinkCost& link, const SumShape& shape, Determinism determinism,
                              std::string_view forced_name) {
  SparseSumPlan best{nullptr, 0}, smallest{nullptr, 0};
  const std::uint8_t forced = forced_row(forced_name);
  const bool is_free = forced == 0 || !is_possible(kSumTable[forced - 1U], shape, determinism);
  for (const SparseSumRow& row : kSumTable) {
    if (is_free ? determinism == Determinism::kRuns && !row.in_rank_order : forced_name != row.name)
      continue;
    if (!is_possible(row, shape, determinism)) continue;
    const double seconds = row.seconds(link, shape), scratch = row.scratch_bytes(link, shape);
    if (smallest.row == nullptr || scratch < smallest.row->scratch_bytes(link, shape))
      smallest = {&row, seconds};
    if (scratch > static_cast<double>(shape.max_scratch_bytes)) continue;
    // If two rows differ only by rounding, which differs between machines, all ranks take the
    // first.
    if (best.row == nullptr || seconds < best.seconds * (1 - 1e-9)) best = {&row, seconds};
  }
  return best.row != nullptr ? best : smallest;
}

SparseSumPlan plan_sparse_sum(const CommContext& comm, const SumShape& shape,
                              Determinism determinism, std::string_view forced_name) {
  comm::LastSumPlan& last = *comm.last_sum_plan;
  const std::uint8_t forced = forced_row(forced_name);
  if (last.row == 0 || last.shape != shape || last.determinism != determinism ||
      last.forced != forced) {
    const SparseSumPlan plan = plan_sparse_sum(comm.link(), shape, determinism, forced_name);
    last = {shape, determinism, forced, static_cast<std::uint8_t>(plan.row - kSumTable.data() + 1),
            plan.seconds};
  }
  return {&kSumTable[last.row - 1U], last.seconds};
}

SumShape sum_shape(const CommContext& comm, std::uint64_t count, const Extents& extents,
                   std::size_t value_bytes, std::size_t accumulator_bytes, bool are_scaled) {
  SumShape shape;
  shape.ranks = comm.engine->transport().size();
  shape.count = count;
  shape.max_entries = extents.max_entries;
  shape.value_bytes = value_bytes;
  shape.accumulator_bytes = accumulator_bytes;
  shape.union_share = static_cast<double>(extents.union_share) / kWholeUnion;
  shape.max_scratch_bytes = std::uint64_t{extents.min_scratch_mib} << 20;
  shape.is_coded = comm.codes_entries(are_scaled);
  shape.set_nodes(comm.node_map);
  return shape;
}

std::uint64_t exact_sum_bytes(const SumShape& shape, std::uint64_t own, std::uint64_t all) {
  if (shape.ranks == 1) return 0;
  const double p = shape.ranks, entries = static_cast<double>(own) +
                                          static_cast<double>(all) * std::max(0.0, p - 2) / p;
  const double place_bytes = comm::coded_place_bytes(static_cast<double>(all), shape.count);
  return static_cast<std::uint64_t>(entries *
                                    (static_cast<double>(shape.value_bytes) + place_bytes));
}

unsigned block_log2_for(std::uint64_t count, int ranks) {
  constexpr unsigned kLeast = 12, kMost = 16;
  constexpr std::uint64_t kBlocksPerRank = 4;  // heuristic
  const std::uint64_t wanted = count / (kBlocksPerRank * static_cast<std::uint64_t>(ranks));
  return std::clamp(static_cast<unsigned>(std::bit_width(wanted)), kLeast + 1, kMost + 1) - 1;
}

// Inside a node bytes are cheap. Up to a third of all elements, reading single entries is cheaper
// than reading a bitmap.
sparse::BlockRun whole_run(const CommContext& comm, const SparseSumCall& call) {
  const transport::Transport& transport = comm.engine->transport();
  const unsigned log2 = block_log2_for(call.count, transport.size());
  const std::uint64_t blocks =
      (call.count >> log2) + ((call.count & ((std::uint64_t{1} << log2) - 1)) != 0 ? 1 : 0);
  return {0, blocks, log2, transport.capabilities().single_node ? 2U : 4U};
}

Buffer pack_part(const CommContext& comm, const sparse::BlockRun& run,
                 std::span<const std::uint64_t> indices, const std::byte* values,
                 std::size_t value_bytes, Traffic& traffic) {
  const StageRange range("encode");
  const double begin = comm.engine->transport().now();
  Buffer part = write_part(comm.outgoing(), *comm.kernels, run, indices, values, value_bytes);
  traffic.produce_seconds += comm.engine->transport().now() - begin;
  return part;
}

Buffer OwnParts::take(const sparse::BlockRun& run) {
  const std::size_t own = sparse::count_below(rest_, run.end_index());
  Buffer part = pack_part(comm_, run, rest_.first(own), rest_values_, value_bytes_, traffic_);
  rest_ = rest_.subspan(own);
  rest_values_ += own * value_bytes_;
  return part;
}

void hand_over(const CommContext& comm, const SparseSumCall& call, const Buffer& part,
               const sparse::PartView& view, const sparse::BlockRun& run, Traffic& traffic) {
  const StageRange range("take");
  const double begin = comm.engine->transport().now();
  call.result->take(part, view, run);
  traffic.produce_seconds += comm.engine->transport().now() - begin;
}

Status refuse_part(const CommContext& comm, int peer) {
  const std::string by =
      peer == kNoPeer
          ? ""
          : fmt::format(" of rank {} ({})", peer, comm.engine->transport().describe_peer(peer));
  comm.engine->fail(Status(Code::kSystemError,
                           fmt::format("a message{} is no part of this sparse sum: do all ranks "
                                       "run the same version of sparcl, with memory that is sound?",
                                       by)),
                    peer);
  return comm.engine->health();
}

}  // namespace sparcl::collectives::sparse_sum
