// The transport conformance suite over MPI, and what is MPI's own; run by mpirun. Exit code 0 only
// if every rank passed every check.
//   mpi_conformance [--big]     --big: only a message of more than 2 GiB

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>

#include "src/transport/mpi/mpi_transport.hpp"
#include "tests/support/mpi_end.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

using conformance::Party;

struct Variant {
  const char* name;
  transport::MpiOptions options;
  conformance::Limits limits;
};

std::string run_variant(const Variant& variant, int size) {
  Result<std::unique_ptr<transport::MpiTransport>> transport =
      transport::MpiTransport::create(MPI_COMM_WORLD, variant.options);
  if (!transport.ok()) return "create: " + transport.status().message();
  if ((*transport)->size() != size) return "the transport has another size than its communicator";
  Party party({transport->get()});
  const bool speaks = (*transport)->rank() == 0;
  std::string trouble = conformance::run_all(party, variant.limits, [&](const char* check) {
    if (speaks) std::printf("ok %s %s\n", variant.name, check);
  });
  if (!trouble.empty()) return trouble;
  // Destroyed in different states: with a receive and a large send that nobody will ever match.
  const transport::OperationRef lonely_receive =
      (*transport)->receive(0, {999'000, 0}, Buffer::allocate(100));
  const transport::OperationRef lonely_send =
      (*transport)->send(0, {999'001, 0}, Buffer::allocate(3'000'000));
  return lonely_receive->done ? "a receive that nobody sends to is done" : "";
}

std::string refuses_bad_arguments() {
  if (transport::MpiTransport::create(MPI_COMM_NULL).status().code() != Code::kInvalidArgument)
    return "MPI_COMM_NULL is not refused";
  for (const std::size_t piece_bytes : {std::size_t{0}, std::size_t{1} << 31}) {
    const auto made = transport::MpiTransport::create(MPI_COMM_WORLD, {.piece_bytes = piece_bytes});
    if (made.status().code() != Code::kInvalidArgument)
      return fmt::format("pieces of {} bytes are not refused", piece_bytes);
  }
  return "";
}

// Two transports of one communicator, and one of each half of the ranks: same channels, other
// messages.
std::string transports_do_not_mix(int rank) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  std::vector<std::unique_ptr<transport::MpiTransport>> transports;
  for (MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_WORLD, half}) {
    auto made = transport::MpiTransport::create(comm);
    if (!made.ok()) return made.status().message();
    transports.push_back(std::move(*made));
  }
  MPI_Comm_free(&half);
  struct Pending {
    Party party;
    std::vector<transport::OperationRef> operations;
    std::vector<conformance::Message> messages;
  };
  std::list<Pending> all;  // a Party must not move
  for (const std::size_t bytes : {100, 100'000}) {
    for (std::size_t i = 0; i < transports.size(); ++i) {
      transport::Transport& own = *transports[i];
      Pending& pending = all.emplace_back(Pending{Party({&own}), {}, {}});
      for (int peer = 0; peer < own.size(); ++peer) {
        const auto tag = [&](int from, int to) {
          return conformance::pattern_tag(from, to, i + bytes);
        };
        const transport::Channel channel{static_cast<std::uint32_t>(bytes), 3};
        pending.operations.push_back(pending.party.send(
            own, peer, channel, conformance::pattern_message(bytes, tag(own.rank(), peer))));
        const transport::OperationRef receive =
            pending.party.receive(own, peer, channel, Buffer::allocate(bytes));
        pending.operations.push_back(receive);
        pending.messages.push_back({receive, bytes, tag(peer, own.rank())});
      }
    }
    // The last one made goes first.
    for (; !all.empty(); all.pop_back()) {
      if (std::string trouble = all.back().party.finish_well(all.back().operations);
          !trouble.empty())
        return trouble;
      if (std::string trouble = conformance::check_received(all.back().messages); !trouble.empty())
        return trouble;
    }
  }
  return "";
}

// From rank 0 to the last one.
std::string big_message(int rank, int size) {
  const std::size_t bytes = (std::size_t{1} << 31) + 12'345;
  auto transport = transport::MpiTransport::create(MPI_COMM_WORLD);
  if (!transport.ok()) return transport.status().message();
  Party party({transport->get()});
  std::vector<transport::OperationRef> sends;
  std::vector<conformance::Message> messages;
  if (rank == size - 1)
    messages.push_back({party.receive(**transport, 0, {1, 0}, Buffer::allocate(bytes)), bytes, 8});
  if (rank == 0)
    sends.push_back(
        party.send(**transport, size - 1, {1, 0}, conformance::pattern_message(bytes, 8)));
  return conformance::finish_and_check(party, sends, messages);
}

[[noreturn]] void give_up(int rank, const char* what, const std::string& trouble) {
  std::fprintf(stderr, "rank %d: %s: %s\n", rank, what, trouble.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

void run(bool big) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (big) {
    if (const std::string trouble = big_message(rank, size); !trouble.empty())
      give_up(rank, "big message", trouble);
    return;
  }
  if (const std::string trouble = refuses_bad_arguments(); !trouble.empty())
    give_up(rank, "arguments", trouble);
  if (const std::string trouble = transports_do_not_mix(rank); !trouble.empty())
    give_up(rank, "several transports", trouble);
  const std::size_t largest = std::size_t{8} << (size > 2 ? 18 : 20);
  const Variant variants[] = {
      {"whole messages", {}, {.largest_bytes = largest, .many = size > 2 ? 100 : 300}},
      {"pieces of 64 KiB",
       {.eager_bytes = 1'000, .piece_bytes = 65'536},
       {.largest_bytes = std::size_t{1} << 20, .many = 100}},
      {"pieces of 997 bytes",
       {.eager_bytes = 3, .piece_bytes = 997},
       {.largest_bytes = 20'000, .many = 50}},
  };
  for (const Variant& variant : variants) {
    if (const std::string trouble = run_variant(variant, size); !trouble.empty())
      give_up(rank, variant.name, trouble);
  }
}

}  // namespace
}  // namespace sparcl

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  sparcl::run(argc > 1 && std::strcmp(argv[1], "--big") == 0);
  return sparcl::test::end_mpi(0);
}
