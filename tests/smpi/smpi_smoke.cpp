// The MPI transport in simulation: with few ranks the conformance checks, then a ring and an
// all-pairs exchange whose simulated times must make sense.

#include <mpi.h>

#include <cstdio>

#include "src/transport/mpi/mpi_transport.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

using conformance::Party;
using conformance::pattern_message;
using conformance::pattern_tag;

// One message once round the ring. It cannot be faster than the platform's latency allows.
std::string ring(Party& party) {
  transport::Transport& own = *party.local().front();
  const int size = own.size(), rank = own.rank();
  const transport::Channel channel{party.next_call(), 0};
  if (std::string trouble = party.barrier(); !trouble.empty()) return trouble;
  const double begin = own.now();
  const transport::OperationRef receive =
      party.receive(own, (rank + size - 1) % size, channel, Buffer::allocate(1'000));
  std::vector<transport::OperationRef> operations{receive};
  if (rank == 0)
    operations.push_back(party.send(own, 1 % size, channel, pattern_message(1'000, 7)));
  if (std::string trouble = party.finish_well({receive}); !trouble.empty()) return trouble;
  if (!conformance::has_pattern(receive->buffer.bytes(), 7)) return "the ring changed the message";
  if (rank != 0) operations.push_back(party.send(own, (rank + 1) % size, channel, receive->buffer));
  if (std::string trouble = party.finish_well(operations); !trouble.empty()) return trouble;
  const double seconds = own.now() - begin;
  constexpr double kLinkLatency = 1e-6;
  if (rank == 0 && (seconds < size * kLinkLatency || seconds > 0.1))
    return fmt::format("a ring of {} ranks took {} simulated s", size, seconds);
  if (rank == 0) std::printf("ring of %d ranks: %.1f simulated us\n", size, seconds * 1e6);
  return "";
}

std::string all_pairs(Party& party) {
  transport::Transport& own = *party.local().front();
  const double begin = own.now();
  if (std::string trouble = conformance::exchange(party, {8, 3'000, 100'000}, true);
      !trouble.empty())
    return trouble;
  if (own.rank() == 0)
    std::printf("all pairs, 103 kB each: %.1f simulated us\n", (own.now() - begin) * 1e6);
  return "";
}

std::string run_all() {
  auto transport = transport::MpiTransport::create(MPI_COMM_WORLD);
  if (!transport.ok()) return transport.status().message();
  Party party({transport->get()});
  constexpr int kFew = 5;  // the checks cost real time with the square of the ranks
  if (party.size() <= kFew) {
    const conformance::Limits limits{
        .largest_bytes = 100'000, .many = 20, .drops_while_idle = false};
    if (std::string trouble = conformance::run_all(party, limits); !trouble.empty()) return trouble;
  }
  if (std::string trouble = ring(party); !trouble.empty()) return trouble;
  return all_pairs(party);
}

}  // namespace
}  // namespace sparcl

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string trouble = sparcl::run_all();
  if (!trouble.empty()) {
    std::fprintf(stderr, "rank %d: %s\n", rank, trouble.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (rank == 0) std::printf("all checks passed in simulation\n");
  MPI_Finalize();
  return 0;
}
