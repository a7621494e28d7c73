// A process of three ranks, as threads, whose third broadcast hangs: rank 1 never makes the call.
// What it does on a signal is the tests' business.
//   flight_victim [handler | siginfo | fork | end | crash | skip | alone]
// handler, siginfo: it has a handler of its own for SIGUSR2; fork: a child makes communicators,
// too, and ends first; end: nothing hangs; crash: the rank that does not come calls abort()
// instead; skip: it goes on without the call; alone: it is one of two ranks, and the other one
// never comes.
#include <sparcl/sparcl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
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

void on_user_siginfo(int number, siginfo_t* info, void*) {
  on_user_signal(info != nullptr ? info->si_signo : number);
}

void install(const char* how) {
  struct sigaction action = {};
  if (std::strcmp(how, "handler") == 0) action.sa_handler = on_user_signal;
  if (std::strcmp(how, "siginfo") == 0) {
    action.sa_sigaction = on_user_siginfo;
    action.sa_flags = SA_SIGINFO;
  }
  if (action.sa_flags != 0 || action.sa_handler != SIG_DFL) ::sigaction(SIGUSR2, &action, nullptr);
}

// What a child does with its own communicators, and with its copies of ours, is none of our
// record's business.
bool child_ends_well(sparclComm_t parents) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::array<sparclComm_t, 1> own{};
    float weight = 1;
    bool well = sparclCommInitLocal(own.data(), 1) == sparclSuccess;
    well = well && sparclBroadcastDelta(&weight, nullptr, 1, sparclFloat32, 0, nullptr, own[0],
                                        nullptr) == sparclSuccess;
    (void)sparclCommDestroy(own[0]);
    (void)sparclCommDestroy(parents);
    std::exit(well ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

void take_part(int rank, sparclComm_t comm, const char* how) {
  std::vector<float> weights(kCount, 0.0f);
  for (int call = 0; call < 3; ++call) {
    if (call == 2 && rank == 1 && std::strcmp(how, "end") != 0) {
      std::puts("ready");
      std::fflush(stdout);
      if (std::strcmp(how, "crash") == 0) std::abort();
      if (std::strcmp(how, "skip") == 0) return;
      for (;;) ::pause();  // lost in the user's program
    }
    if (rank == 0) weights[static_cast<std::size_t>(call)] = 1;
    (void)sparclBroadcastDelta(weights.data(), nullptr, kCount, sparclFloat32, 0, nullptr, comm,
                               nullptr);
  }
}

// 9: this library has no transport for it.
int meet_nobody() {
  sparclUniqueId id;
  sparclComm_t comm = nullptr;
  if (sparclGetUniqueId(&id) != sparclSuccess) return 1;
  return sparclCommInitRank(&comm, 2, id, 0, nullptr) == sparclUnsupported ? 9 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  if (std::strcmp(how, "alone") == 0) return meet_nobody();
  install(how);
  std::array<sparclComm_t, kRanks> comms{};
  if (sparclCommInitLocal(comms.data(), kRanks) != sparclSuccess) return 1;
  if (std::strcmp(how, "fork") == 0 && !child_ends_well(comms[0])) return 2;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back(take_part, rank, comms[static_cast<std::size_t>(rank)], how);
  for (std::thread& thread : threads) thread.join();
  for (const sparclComm_t comm : comms) (void)sparclCommDestroy(comm);
  return 0;
}
