// The transport conformance suite over UCX. Exit code 0 only if every rank passed every check.
//   ucx_conformance RANKS              ranks are processes
//   ucx_conformance RANKS --threads    ranks are threads of one process
//   ucx_conformance RANKS --pair       each process is a rank in two communicators, used at the
//                                      same time by two threads
//   ucx_conformance 2 --loss           rank 1 is killed: the next communicator has another worker
//                                      (UCX_TLS=tcp, so that UCX tells)
//   ucx_conformance 1 --ids            mailboxes of one worker
//   ucx_conformance 3 --early-signal   threads, of which one fails while another still connects
// UCX_TLS says over what: shared memory where it may, or tcp.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "src/transport/ucx/ucx_transport.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

conformance::Limits limits_for(int ranks) {
  return {.largest_bytes = std::size_t{8} << (ranks > 2 ? 18 : 20), .many = ranks > 2 ? 100 : 300};
}

std::string run_checks(transport::UcxTransport& transport, int rank, int ranks) {
  if (transport.size() != ranks || transport.rank() != rank)
    return "the transport has another size, or rank, than it was given";
  conformance::Party party({&transport});
  return conformance::run_all(party, limits_for(ranks), [&](const char* check) {
    if (rank == 0) std::printf("ok %s\n", check);
  });
}

std::string run_rank(int rank, int ranks, const transport::OutOfBandGather& gather) {
  Result<std::unique_ptr<transport::UcxTransport>> transport =
      transport::UcxTransport::create(rank, ranks, gather, {.departure_s = 0.5});
  if (!transport.ok()) return "create: " + transport.status().message();
  const std::string trouble = run_checks(**transport, rank, ranks);
  if (!trouble.empty()) return trouble;
  // Destroyed in different states: with a receive and a large send that nobody will ever match.
  const transport::OperationRef lonely_receive =
      (*transport)->receive(0, {999'000, 0}, Buffer::allocate(100));
  const transport::OperationRef lonely_send =
      (*transport)->send(0, {999'001, 0}, Buffer::allocate(3'000'000));
  return lonely_receive->done ? "a receive that nobody sends to is done" : "";
}

// Moves both on until `operation` is over.
bool finish(transport::UcxTransport& its, transport::UcxTransport& other,
            const transport::OperationRef& operation) {
  constexpr double kHangSeconds = 60;
  std::vector<transport::OperationRef> completed;
  for (const double until = its.now() + kHangSeconds; !operation->done && its.now() < until;) {
    (void)its.progress(completed);
    (void)other.progress(completed);
  }
  return operation->done && operation->status.ok();
}

// Two communicators of one process share its worker. One may go first, and what still comes for it
// keeps nobody waiting.
std::string run_pair(int rank, int ranks, const transport::OutOfBandGather& gather) {
  constexpr transport::Channel kWord{999'000, 0}, kLate{999'001, 0};
  const auto make = [&] {
    return transport::UcxTransport::create(rank, ranks, gather, {.departure_s = 0.5});
  };
  auto first = make(), second = make();
  if (!first.ok() || !second.ok())
    return "create: " + first.status().message() + second.status().message();
  std::string troubles[2];
  {
    const std::jthread thread([&] { troubles[0] = run_checks(**first, rank, ranks); });
    troubles[1] = run_checks(**second, rank, ranks);
  }
  if (!troubles[0].empty() || !troubles[1].empty()) return troubles[0] + troubles[1];
  transport::UcxTransport& stays = **second;
  if (rank == 0) {
    first->reset();
    for (int peer = 1; peer < ranks; ++peer) (void)stays.send(peer, kWord, Buffer::allocate(1));
    for (int peer = 1; peer < ranks; ++peer) {
      if (!finish(stays, stays, stays.receive(peer, kWord, Buffer::allocate(1))))
        return "a peer's last send did not end";
    }
    return "";
  }
  if (!finish(stays, stays, stays.receive(0, kWord, Buffer::allocate(1))))
    return "rank 0 has not ended its first communicator";
  const transport::OperationRef late = (*first)->send(0, kLate, Buffer::allocate(3'000'000));
  if (!finish(**first, stays, late)) return "a message for a communicator that ended is not taken";
  if (!finish(stays, **first, stays.send(0, kWord, Buffer::allocate(1))))
    return "the second communicator has ended, too";
  return "";
}

std::string lose_peer(int rank, const transport::OutOfBandGather& gather) {
  auto made = transport::UcxTransport::create(rank, 2, gather, {.departure_s = 0.5});
  if (!made.ok()) return "create: " + made.status().message();
  transport::UcxTransport& transport = **made;
  const auto before = transport::UcxWorker::of_process();  // rank 0 may see rank 1's death as soon
                                                           // as both have said a word
  if (Status connected = transport.connect(60); !connected.ok())
    return "connect: " + connected.message();
  if (rank == 1) ::_exit(0);
  const transport::OperationRef waits = transport.receive(1, {1, 0}, Buffer::allocate(1));
  if (finish(transport, transport, waits) || !waits->done) return "the death of rank 1 is not told";
  const auto after = transport::UcxWorker::of_process();
  if (!before.ok() || !after.ok() || *before == *after)
    return "a worker that has lost a peer takes new communicators";
  return transport::UcxWorker::of_process().ok() && *transport::UcxWorker::of_process() == *after
             ? ""
             : "the new worker is not shared";
}

// Rank 1 fails in its first call while rank 0 waits for rank 2's first word: rank 0 begins, and
// learns of it then.
std::string fail_while_others_connect(int rank, const transport::OutOfBandGather& gather,
                                      std::atomic<bool>& has_failed, std::atomic<int>& over) {
  Result<std::unique_ptr<transport::UcxTransport>> made =
      transport::UcxTransport::create(rank, 3, gather, {.departure_s = 0.5});
  if (!made.ok()) return "create: " + made.status().message();
  transport::UcxTransport& transport = **made;
  std::vector<transport::OperationRef> completed;
  const auto move_until = [&](const auto& done) {
    while (!done()) (void)transport.progress(completed);
  };
  Status status;
  transport::Signal said;
  if (rank == 1) {
    (void)transport.connect(0);  // says its first word, and does not wait for the others'
    said.code = static_cast<std::int32_t>(Code::kSystemError);
    transport.signal(0, said);
    transport.flush_signals(20);
    has_failed = true;
  } else {
    if (rank == 2) move_until([&] { return has_failed.load(); });
    status = transport.connect(20);
    const double deadline = transport.now() + 20;
    if (rank == 0)
      move_until([&] {
        return !status.ok() || transport.poll_signal(said) || transport.now() > deadline;
      });
  }
  ++over;
  move_until([&] { return over == 3; });
  if (!status.ok()) return "connect: " + status.message();
  return rank == 0 && said.from != 1 ? "rank 1's signal is lost" : "";
}

int report(int rank, const std::string& trouble) {
  if (trouble.empty()) return 0;
  std::fprintf(stderr, "rank %d: %s\n", rank, trouble.c_str());
  return 1;
}

int run_threads(int ranks,
                const std::function<std::string(int, const transport::OutOfBandGather&)>& run) {
  std::vector<transport::Bytes> all(static_cast<std::size_t>(ranks));
  std::barrier meeting(ranks);
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto gather =
            [&](std::span<const std::byte> own) -> Result<std::vector<transport::Bytes>> {
          all[static_cast<std::size_t>(rank)].assign(own.begin(), own.end());
          meeting.arrive_and_wait();
          return all;
        };
        failures += report(rank, run(rank, gather));
      });
    }
  }
  return failures == 0 ? 0 : 1;
}

int run_early_signal() {
  std::atomic<bool> has_failed = false;
  std::atomic<int> over = 0;
  return run_threads(3, [&](int rank, const auto& gather) {
    return fail_while_others_connect(rank, gather, has_failed, over);
  });
}

int check_ids() {
  constexpr int kAll = 1 << transport::kUcxIdBits;
  const auto worker = transport::UcxWorker::open();
  if (!worker.ok()) return report(0, worker.status().message());
  auto three = transport::UcxMailbox::open(*worker, 3),
       two = transport::UcxMailbox::open(*worker, 2);
  if (!three.ok() || !two.ok()) return report(0, "two small communicators do not fit");
  const std::uint32_t first = (*three)->first_id(), second = (*two)->first_id();
  if (first % 4 != 0 || second % 2 != 0 || (second >= first && second < first + 4))
    return report(0, "ids are given twice");
  three->reset();
  const auto again = transport::UcxMailbox::open(*worker, 3);
  if (!again.ok() || (*again)->first_id() == first)
    return report(0, "ids of a communicator that just ended are given again");
  if (transport::UcxMailbox::open(*worker, kAll / 2).ok() &&
      transport::UcxMailbox::open(*worker, kAll).status().code() != Code::kUnsupported)
    return report(0, "more ids are given than there are");
  return transport::UcxMailbox::open(*worker, kAll / 2).ok()
             ? 0
             : report(0, "ids of communicators that ended are never given again");
}

bool move_all(int socket, void* data, std::size_t bytes, bool sends) {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t moved =
        sends ? ::send(socket, at, bytes, MSG_NOSIGNAL) : ::recv(socket, at, bytes, 0);
    if (moved <= 0) return false;
    at += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

bool send_bytes(int socket, transport::Bytes bytes) {
  std::uint64_t size = bytes.size();
  return move_all(socket, &size, sizeof size, true) && move_all(socket, bytes.data(), size, true);
}

bool receive_bytes(int socket, transport::Bytes& bytes) {
  std::uint64_t size = 0;
  if (!move_all(socket, &size, sizeof size, false)) return false;
  bytes.resize(size);
  return move_all(socket, bytes.data(), size, false);
}

// The parent hands everyone's bytes to everyone.
int run_processes(int ranks, int meetings,
                  const std::function<std::string(int, const transport::OutOfBandGather&)>& run) {
  std::vector<int> sockets;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 1;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto gather =
          [&](std::span<const std::byte> own) -> Result<std::vector<transport::Bytes>> {
        std::vector<transport::Bytes> all(static_cast<std::size_t>(ranks));
        bool ok = send_bytes(pair[1], {own.begin(), own.end()});
        for (transport::Bytes& each : all) ok = ok && receive_bytes(pair[1], each);
        if (!ok) return Status(Code::kSystemError, "the launcher is gone");
        return all;
      };
      std::exit(report(rank, run(rank, gather)));
    }
    ::close(pair[1]);
    sockets.push_back(pair[0]);
    children.push_back(child);
  }
  for (int meeting = 0; meeting < meetings; ++meeting) {
    std::vector<transport::Bytes> all(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < all.size(); ++i) receive_bytes(sockets[i], all[i]);
    for (const int socket : sockets) {
      for (const transport::Bytes& each : all) send_bytes(socket, each);
    }
  }
  int failures = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) ++failures;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sparcl

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) return 2;
  const auto is_asked = [&](const char* option) {
    return argc > 2 && std::strcmp(argv[2], option) == 0;
  };
  if (is_asked("--ids")) return sparcl::check_ids();
  if (is_asked("--loss")) return sparcl::run_processes(ranks, 1, sparcl::lose_peer);
  if (is_asked("--early-signal")) return sparcl::run_early_signal();
  const auto run = [&](int rank, const sparcl::transport::OutOfBandGather& gather) {
    return sparcl::run_rank(rank, ranks, gather);
  };
  if (is_asked("--threads")) return sparcl::run_threads(ranks, run);
  if (!is_asked("--pair")) return sparcl::run_processes(ranks, 1, run);
  return sparcl::run_processes(ranks, 2, [&](int rank, const auto& gather) {
    return sparcl::run_pair(rank, ranks, gather);
  });
}
