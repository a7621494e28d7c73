// What the MPI transport costs over plain MPI: 8-byte ping-pong and a stream of 256 KiB messages
// between two ranks, both ways in turn in one run. With any number of ranks: how much rank 0's work
// is held up by the others, who wait for its message.
//   mpirun -n RANKS mpi_overhead [REPETITIONS]

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "src/transport/mpi/mpi_transport.hpp"
#include "tests/support/mpi_end.hpp"

namespace sparcl {
namespace {

constexpr int kRoundTrips = 2'000;
constexpr int kStreamed = 400;
constexpr int kWindow = 8;
constexpr std::size_t kStreamBytes = 256 << 10;

void finish(transport::Transport& transport,
            const std::vector<transport::OperationRef>& operations) {
  std::vector<transport::OperationRef> completed;
  std::uint64_t turns = 0;
  while (!std::all_of(operations.begin(), operations.end(),
                      [](const transport::OperationRef& each) { return each->done; })) {
    completed.clear();
    if (!transport.progress(completed).ok()) std::abort();
    if (completed.empty()) {
      transport.idle(++turns, transport.now() + 1);
    } else {
      turns = 0;
    }
  }
}

double plain_ping_pong(MPI_Comm comm, int rank) {
  char out[8] = {}, in[8];
  const int peer = 1 - rank;
  const double begin = MPI_Wtime();
  for (int i = 0; i < kRoundTrips; ++i) {
    MPI_Request requests[2];
    MPI_Irecv(in, 8, MPI_BYTE, peer, 1, comm, &requests[0]);
    if (rank == 1) MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Isend(out, 8, MPI_BYTE, peer, 1, comm, &requests[1]);
    MPI_Waitall(rank == 1 ? 1 : 2, rank == 1 ? &requests[1] : requests, MPI_STATUSES_IGNORE);
  }
  return (MPI_Wtime() - begin) / kRoundTrips / 2 * 1e6;
}

double transport_ping_pong(transport::Transport& transport) {
  const Buffer out = Buffer::allocate(8), in = Buffer::allocate(8);
  const int peer = 1 - transport.rank();
  std::vector<transport::OperationRef> operations(1);
  const double begin = transport.now();
  for (int i = 0; i < kRoundTrips; ++i) {
    operations[0] = transport.receive(peer, {1, 0}, in);
    if (transport.rank() == 1) finish(transport, operations);
    const transport::OperationRef send = transport.send(peer, {1, 0}, out);
    finish(transport, {operations[0], send});
  }
  return (transport.now() - begin) / kRoundTrips / 2 * 1e6;
}

double plain_stream(MPI_Comm comm, int rank, std::vector<Buffer>& buffers) {
  std::vector<MPI_Request> requests(kWindow, MPI_REQUEST_NULL);
  MPI_Barrier(comm);
  const double begin = MPI_Wtime();
  for (int i = 0; i < kStreamed; ++i) {
    const auto slot = static_cast<std::size_t>(i % kWindow);
    MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
    if (rank == 0) {
      MPI_Isend(buffers[slot].data(), kStreamBytes, MPI_BYTE, 1, 2, comm, &requests[slot]);
    } else {
      MPI_Irecv(buffers[slot].data(), kStreamBytes, MPI_BYTE, 0, 2, comm, &requests[slot]);
    }
  }
  MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
  MPI_Barrier(comm);
  return kStreamed * static_cast<double>(kStreamBytes) / (MPI_Wtime() - begin) * 1e-9;
}

double transport_stream(transport::Transport& transport, MPI_Comm comm,
                        std::vector<Buffer>& buffers) {
  std::vector<transport::OperationRef> operations(kWindow);
  std::vector<transport::OperationRef> one(1);
  MPI_Barrier(comm);
  const double begin = MPI_Wtime();
  for (int i = 0; i < kStreamed; ++i) {
    transport::OperationRef& slot = operations[static_cast<std::size_t>(i % kWindow)];
    if (slot) {
      one[0] = slot;
      finish(transport, one);
    }
    const Buffer& buffer = buffers[static_cast<std::size_t>(i % kWindow)];
    slot = transport.rank() == 0 ? transport.send(1, {2, 0}, buffer)
                                 : transport.receive(0, {2, 0}, buffer);
  }
  finish(transport, operations);
  MPI_Barrier(comm);
  return kStreamed * static_cast<double>(kStreamBytes) / (MPI_Wtime() - begin) * 1e-9;
}

// The best of all repetitions is what is left where other programs share the cores.
void print(const char* what, const char* unit, std::vector<double> plain, std::vector<double> own,
           bool largest_is_best) {
  std::sort(plain.begin(), plain.end());
  std::sort(own.begin(), own.end());
  const std::size_t middle = plain.size() / 2, best = largest_is_best ? plain.size() - 1 : 0;
  std::printf(
      "%s: median plain %.3f, transport %.3f %s, ratio %.2f; best plain %.3f, transport %.3f, "
      "ratio %.2f\n",
      what, plain[middle], own[middle], unit, own[middle] / plain[middle], plain[best], own[best],
      own[best] / plain[best]);
}

// Some 20 ms of work; the answer keeps the compiler from leaving it out.
std::uint64_t work() {
  std::uint64_t value = 1;
  for (int i = 0; i < 15'000'000; ++i) value = mix64(value);
  return value;
}

// Rank 0's work, alone and while the others wait for its message, which goes along a chain; then
// when the last has it.
void print_waiting(transport::Transport& transport, int repetitions) {
  const int rank = transport.rank(), last = transport.size() - 1;
  std::vector<double> alone_ms, beside_ms, message_us;
  const Buffer buffer = Buffer::allocate(8);
  for (int i = 0; i < repetitions; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = transport.now();
    std::uint64_t sink = rank == 0 ? work() : 0;
    const double alone = transport.now() - begin;
    // The others sleep meanwhile: MPI_Barrier would spin.
    if (rank != 0) transport::MpiIdler::nap(0.05);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = transport.now();
    if (rank == 0) sink += work();
    const double beside = transport.now() - begin;
    if (rank > 0) finish(transport, {transport.receive(rank - 1, {3, 0}, buffer)});
    if (rank < last) finish(transport, {transport.send(rank + 1, {3, 0}, buffer)});
    if (rank == last) finish(transport, {transport.send(0, {4, 0}, buffer)});
    if (rank == 0) finish(transport, {transport.receive(last, {4, 0}, buffer)});
    alone_ms.push_back(alone * 1e3), beside_ms.push_back(beside * 1e3);
    message_us.push_back((transport.now() - begin - beside) * 1e6 +
                         static_cast<double>(sink & 1) * 1e-9);
  }
  if (rank != 0) return;
  print("work beside ranks that wait", "ms", alone_ms, beside_ms, false);
  std::sort(message_us.begin(), message_us.end());
  std::printf("then a message through all ranks: median %.1f us, best %.1f us\n",
              message_us[message_us.size() / 2], message_us[0]);
}

int run(int repetitions) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) {
    std::fprintf(stderr, "mpi_overhead runs with 2 ranks or more\n");
    return 2;
  }
  auto transport = transport::MpiTransport::create(MPI_COMM_WORLD);
  if (!transport.ok()) return 1;
  print_waiting(**transport, repetitions);
  if (size > 2) return 0;
  std::vector<Buffer> buffers;
  for (int i = 0; i < kWindow; ++i) buffers.push_back(Buffer::allocate(kStreamBytes));
  std::vector<double> plain_us, own_us, plain_gb, own_gb;
  for (int i = 0; i < repetitions + 2; ++i) {
    const double a = plain_ping_pong(MPI_COMM_WORLD, rank), b = transport_ping_pong(**transport);
    const double c = plain_stream(MPI_COMM_WORLD, rank, buffers),
                 d = transport_stream(**transport, MPI_COMM_WORLD, buffers);
    if (i < 2) continue;  // warm-up
    plain_us.push_back(a), own_us.push_back(b), plain_gb.push_back(c), own_gb.push_back(d);
  }
  if (rank == 0) {
    print("8-byte ping-pong, half a round trip", "us", plain_us, own_us, false);
    print("stream of 256 KiB messages, 8 in flight", "GB/s", plain_gb, own_gb, true);
  }
  return 0;
}

}  // namespace
}  // namespace sparcl

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  const int result = sparcl::run(argc > 1 ? std::atoi(argv[1]) : 21);
  return sparcl::test::end_mpi(result);
}
