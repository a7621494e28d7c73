// Each rank sends its entries to all other ranks, and sums all of them for itself: one round, for
// few entries. Cost: (P - 1) alpha, (P - 1) k w beta, P log2(P) k gamma.
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {

double gather_seconds(const LinkCost& link, const SumShape& shape) {
  const double p = shape.ranks, k = static_cast<double>(shape.max_entries);
  return link.round_s + (p - 1) * link.alpha_s +
         k * shape.entry_bytes() * shape.byte_to_all_s(link) +
         p * k * (shape.tree_depth() * link.entry_s + shape.coding_s()) +
         shape.union_of(p) * kTakeOfSum * link.entry_s;
}

// All parts, and the sum.
double gather_scratch_bytes(const LinkCost&, const SumShape& shape) {
  return (shape.ranks * static_cast<double>(shape.max_entries) + shape.union_of(shape.ranks)) *
         shape.entry_bytes();
}

Task sum_by_gather(const CommContext& comm, const SparseSumCall& call, Traffic& traffic) {
  const int rank = comm.engine->transport().rank(), ranks = comm.engine->transport().size();
  const std::size_t value_bytes = part_value_bytes(*comm.kernels, call.kind.datatype, call.in);
  const sparse::BlockRun run = whole_run(comm, call);
  const std::uint64_t max_bytes = max_part_bytes(run, call.max_entries, value_bytes);
  const sparse::PartShape shape{run, value_bytes, call.form};
  PartMessages messages(comm, call.number, traffic);

  std::vector<PartMessages::Arrival> arrivals(static_cast<std::size_t>(ranks));
  for (int step = 1; step < ranks; ++step) {
    const int peer = (rank + ranks - step) % ranks;
    arrivals[static_cast<std::size_t>(peer)] = messages.receive(peer, kPartLane, shape, max_bytes);
  }
  arrivals[static_cast<std::size_t>(rank)].part =
      pack_part(comm, run, call.indices, call.values, value_bytes, traffic);
  for (int step = 1; step < ranks; ++step)
    messages.send((rank + step) % ranks, kPartLane, arrivals[static_cast<std::size_t>(rank)].part,
                  shape);

  std::vector<std::span<const std::byte>> parts;
  for (PartMessages::Arrival& arrival : arrivals) {
    if (arrival.peer >= 0) {
      Task waiting = messages.wait(arrival, "entries to be summed");
      const Status alive = co_await waiting;
      if (!alive.ok()) co_return alive;
    }
    parts.push_back(arrival.part.bytes());
  }
  sparse::PartSum sum(comm.outgoing(), *comm.kernels, call.kind, parts.size(), call.in, call.out,
                      call.kind.reduction.is_mean ? static_cast<std::uint32_t>(ranks) : 1);
  const std::optional<Buffer> total = sum.sum(parts, run);
  if (!total) co_return refuse_part(comm, static_cast<int>(sum.refused()));
  const std::size_t out_bytes = part_value_bytes(*comm.kernels, call.kind.datatype, call.out);
  hand_over(comm, call, *total,
            sparse::PartView::read(*comm.kernels, total->bytes(), run, out_bytes).value(), run,
            traffic);
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

}  // namespace sparcl::collectives::sparse_sum
