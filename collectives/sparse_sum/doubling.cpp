// Recursive doubling (SSAR_rec of SparCML) in the tree over ranks, from its leaves. The ranks of
// two neighbouring ranges exchange their sums, and add them. Any P works, because the longer
// range's ranks share the partners of the shorter. Accumulators are sent, so that sums are rounded
// once. Cost: ceil(log2 P) alpha, and for each level t U(2^t) w beta and gamma.
#include <bit>

#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

struct Split {  // ranks [begin, middle) and [middle, end)
  int begin, middle, end;
};

// The splits that contain a rank, the smallest first.
std::vector<Split> splits_of(int rank, int ranks) {
  std::vector<Split> splits;
  for (int begin = 0, end = ranks; end - begin > 1;) {
    const int middle =
        begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(end - begin - 1)));
    splits.push_back({begin, middle, end});
    (rank < middle ? end : begin) = middle;
  }
  return {splits.rbegin(), splits.rend()};
}

struct Partners {
  int from;
  std::vector<int> to;
};

// The lower range is never shorter: several of its ranks may receive from one rank of the upper.
Partners partners_of(int rank, const Split& split) {
  const int lower = split.middle - split.begin, upper = split.end - split.middle;
  if (rank >= split.middle) {
    Partners partners{split.begin + (rank - split.middle), {}};
    for (int to = partners.from; to < split.middle; to += upper) partners.to.push_back(to);
    return partners;
  }
  const int own = rank - split.begin;
  Partners partners{split.middle + own % upper, {}};
  if (own < upper && own < lower) partners.to.push_back(split.middle + own);
  return partners;
}

}  // namespace

double doubling_seconds(const LinkCost& link, const SumShape& shape) {
  double seconds = shape.union_of(shape.ranks) * kTakeOfSum * link.entry_s;
  for (int together = 1; together < shape.ranks; together *= 2) {
    const double entries = shape.union_of(together);
    const LinkCost& used =
        shape.nodes_are_subtrees && together < shape.ranks_per_node ? kNodeLink : link;
    seconds += used.round_s + used.alpha_s +
               entries * (shape.entry_bytes() * used.beta_s_per_byte + 2 * link.entry_s +
                          2 * shape.coding_s());
  }
  return seconds;
}

// The own sum, the received sum, and their sum.
double doubling_scratch_bytes(const LinkCost&, const SumShape& shape) {
  return 3 * shape.union_of(shape.ranks) * (shape.entry_bytes() + 4);
}

Task sum_by_doubling(const CommContext& comm, const SparseSumCall& call, Traffic& traffic) {
  const kernels::KernelSet& kernels = *comm.kernels;
  const int rank = comm.engine->transport().rank(), ranks = comm.engine->transport().size();
  const std::uint32_t divisor = call.kind.reduction.is_mean ? static_cast<std::uint32_t>(ranks) : 1;
  const std::size_t value_bytes = part_value_bytes(kernels, call.kind.datatype, call.out);
  const std::size_t width =
      part_value_bytes(kernels, call.kind.datatype, sparse::PartValues::kAccumulators);
  const sparse::BlockRun run = whole_run(comm, call);
  const sparse::PartShape shape{run, width};
  PartMessages messages(comm, call.number, traffic);

  const Buffer own = pack_part(comm, run, call.indices, call.values,
                               part_value_bytes(kernels, call.kind.datatype, call.in), traffic);
  const std::vector<Split> splits = splits_of(rank, ranks);
  sparse::PartSum widen(comm.outgoing(), kernels, call.kind, 1, call.in,
                        splits.empty() ? call.out : sparse::PartValues::kAccumulators, 1);
  sparse::PartSum add(comm.outgoing(), kernels, call.kind, 2, sparse::PartValues::kAccumulators,
                      sparse::PartValues::kAccumulators, 1);
  sparse::PartSum finish(comm.outgoing(), kernels, call.kind, 2, sparse::PartValues::kAccumulators,
                         call.out, divisor);
  const std::span<const std::byte> own_bytes[] = {own.bytes()};
  Buffer held = widen.sum(own_bytes, run).value();
  for (const Split& split : splits) {
    const Partners partners = partners_of(rank, split);
    const auto theirs = static_cast<std::uint64_t>(
        rank < split.middle ? split.end - split.middle : split.middle - split.begin);
    const std::uint64_t max_entries =
        call.max_entries > UINT64_MAX / theirs ? UINT64_MAX : call.max_entries * theirs;
    const std::uint64_t max_bytes = max_part_bytes(run, max_entries, width);
    PartMessages::Arrival arrival = messages.receive(partners.from, kPartLane, shape, max_bytes);
    for (const int to : partners.to) messages.send(to, kPartLane, held, shape);
    Task waiting = messages.wait(arrival, "entries to be summed");
    const Status alive = co_await waiting;
    if (!alive.ok()) co_return alive;
    const bool is_lower = rank < split.middle;
    const std::span<const std::byte> halves[] = {is_lower ? held.bytes() : arrival.part.bytes(),
                                                 is_lower ? arrival.part.bytes() : held.bytes()};
    std::optional<Buffer> both = (split.end - split.begin == ranks ? finish : add).sum(halves, run);
    if (!both) co_return refuse_part(comm, partners.from);
    held = std::move(*both);
  }
  hand_over(comm, call, held,
            sparse::PartView::read(kernels, held.bytes(), run, value_bytes).value(), run, traffic);
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

}  // namespace sparcl::collectives::sparse_sum
