// A process of three ranks, as threads, whose third broadcast hangs: rank 1 never makes the call. What it does on a signal is the tests' business.
//   flight_victim [handler]    with `handler` it has a handler of its own for SIGUSR2
#include <sparcl/sparcl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCount = 1000;

void on_user_signal(int) {
  constexpr char kText[] = "the user's handler ran\n";
  if (::write(STDERR_FILENO, kText, sizeof kText - 1) < 0) ::_exit(3);
}

void take_part(int rank, sparclComm_t comm) {
  std::vector<float> weights(kCount, 0.0f);
  const std::vector<float> base(kCount, 0.0f);
  for (int call = 0; call < 3; ++call) {
    if (call == 2 && rank == 1) {
      std::puts("ready");
      std::fflush(stdout);
      for (;;) ::pause();  // lost in the user's program
    }
    if (rank == 0) weights[static_cast<std::size_t>(call)] = 1;
    (void)sparclBroadcastDelta(weights.data(), nullptr, kCount, sparclFloat32, 0, comm, nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "handler") == 0) std::signal(SIGUSR2, on_user_signal);
  std::array<sparclComm_t, kRanks> comms{};
  if (sparclCommInitLocal(comms.data(), kRanks) != sparclSuccess) return 1;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back(take_part, rank, comms[static_cast<std::size_t>(rank)]);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
