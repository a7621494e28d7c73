// The transport conformance suite over MPI; run by mpirun. Exit code 0 only if every rank passed every check.

#include <mpi.h>

#include <cstdio>

#include "src/transport/mpi/mpi_transport.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

struct Variant {
  const char* name;
  MpiOptions options;
  conformance::Limits limits;
};

std::string run_variant(const Variant& variant, int size) {
  Result<std::unique_ptr<MpiTransport>> transport = MpiTransport::create(MPI_COMM_WORLD, variant.options);
  if (!transport.ok()) return "create: " + transport.status().message();
  if ((*transport)->size() != size) return "the transport has another size than its communicator";
  conformance::Party party({transport->get()});
  const bool speaks = (*transport)->rank() == 0;
  std::string trouble = conformance::run_all(party, variant.limits, [&](const char* check) {
    if (speaks) std::printf("ok %s %s\n", variant.name, check);
  });
  if (!trouble.empty()) return trouble;
  // Destroyed in different states: with a receive and a large send that nobody will ever match.
  const OperationRef lonely_receive = (*transport)->receive(0, {999'000, 0}, Buffer::allocate(100));
  const OperationRef lonely_send = (*transport)->send(0, {999'001, 0}, Buffer::allocate(3'000'000));
  return lonely_receive->done ? "a receive that nobody sends to is done" : "";
}

int run() {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::size_t largest = std::size_t{8} << (size > 2 ? 18 : 20);
  const Variant variants[] = {
      {"whole messages", {}, {.largest_bytes = largest, .many = size > 2 ? 100 : 300}},
      {"pieces of 64 KiB", {.eager_bytes = 1'000, .piece_bytes = 65'536}, {.largest_bytes = std::size_t{1} << 20, .many = 100}},
      {"pieces of 997 bytes", {.eager_bytes = 3, .piece_bytes = 997}, {.largest_bytes = 20'000, .many = 50}},
  };
  for (const Variant& variant : variants) {
    const std::string trouble = run_variant(variant, size);
    if (!trouble.empty()) {
      std::fprintf(stderr, "rank %d: %s: %s\n", rank, variant.name, trouble.c_str());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  return 0;
}

}  // namespace
}  // namespace sparcl

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const int failed = sparcl::run();
  MPI_Finalize();
  return failed;
}
