// Many requests at once: what one turn asks MPI for is bounded, and nothing waits for long. Run by
// mpirun with any number of ranks; exit code 0 only if every check passed. Prints how long a turn
// takes.

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "src/transport/mpi/mpi_transport.hpp"
#include "tests/support/mpi_end.hpp"

namespace {

int largest_question = 0;

}  // namespace

// MPI's profiling interface: the library's own calls come by here.
extern "C" int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[],
                            MPI_Status statuses[]) {
  largest_question = std::max(largest_question, count);
  return PMPI_Testsome(count, requests, done, indices, statuses);
}

namespace sparcl {
namespace {

constexpr int kPending = 1000;
constexpr int kMaxAsked = 64;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

transport::Channel channel_of(int i) { return {1, static_cast<std::uint8_t>(i % 256)}; }

void turn(transport::Transport& transport) {
  std::vector<transport::OperationRef> completed;
  require(transport.progress(completed).ok(), "progress()");
}

// From the own rank, in an order that no table would expect.
void every_message_arrives(transport::Transport& transport,
                           std::vector<transport::OperationRef>& receives) {
  std::vector<transport::OperationRef> sends;
  for (int lane = 0; lane < 256; ++lane) {
    for (int i = (lane * 37) % 256; i < kPending; i += 256) {
      sends.push_back(transport.send(transport.rank(), channel_of(i), Buffer::allocate(8)));
    }
  }
  const auto is_done = [](const transport::OperationRef& operation) { return operation->done; };
  for (int i = 0; i < 100'000 && !(std::all_of(receives.begin(), receives.end(), is_done)); ++i)
    turn(transport);
  require(std::all_of(receives.begin(), receives.end(), is_done), "all messages arrive");
}

// While its window is busy all the time, a request elsewhere gets its turn.
void nobody_is_kept_waiting(transport::Transport& transport) {
  std::vector<transport::OperationRef> lonely;
  for (int i = 0; i < kPending; ++i)
    lonely.push_back(transport.receive(transport.rank(), {2, static_cast<std::uint8_t>(i % 256)},
                                       Buffer::allocate(8)));
  const transport::OperationRef wanted = lonely[kPending / 2];
  const transport::Channel channel{2, static_cast<std::uint8_t>((kPending / 2) % 256)};
  for (int i = kPending / 2 % 256; i <= kPending / 2; i += 256)
    (void)transport.send(transport.rank(), channel, Buffer::allocate(8));
  int turns = 0;
  for (; !wanted->done && turns < 20 * kPending; ++turns) {
    for (int i = 0; i < 8; ++i) {  // requests that come and go
      (void)transport.receive(transport.rank(), {3, 0}, Buffer::allocate(8));
      (void)transport.send(transport.rank(), {3, 0}, Buffer::allocate(8));
    }
    turn(transport);
  }
  require(wanted->done, "a request is asked for while others come and go");
  std::printf("a request among %d was seen after %d turns\n", kPending, turns);
  for (const transport::OperationRef& each : lonely)
    transport.cancel(each);  // and the transport goes before MPI has said anything to that
}

void run() {
  auto made = transport::MpiTransport::create(MPI_COMM_WORLD);
  require(made.ok(), "create()");
  transport::Transport& transport = **made;
  std::vector<transport::OperationRef> receives;
  for (int i = 0; i < kPending; ++i)
    receives.push_back(transport.receive(transport.rank(), channel_of(i), Buffer::allocate(8)));
  constexpr int kTurns = 2000;
  const double begin = transport.now();
  for (int i = 0; i < kTurns; ++i) turn(transport);
  std::printf("%d pending: %.2f us a turn\n", kPending, (transport.now() - begin) / kTurns * 1e6);
  require(largest_question > 0, "the library asks by MPI_Testsome");
  require(largest_question <= kMaxAsked, "one turn asks for a bounded number of requests");
  every_message_arrives(transport, receives);
  nobody_is_kept_waiting(transport);
  require(largest_question <= kMaxAsked, "one turn asks for a bounded number of requests");
}

}  // namespace
}  // namespace sparcl

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  sparcl::run();
  return sparcl::test::end_mpi(0);
}
