// The transport conformance suite over UCX. Exit code 0 only if every rank passed every check.
//   ucx_conformance RANKS              ranks are processes
//   ucx_conformance RANKS --threads    ranks are threads of one process
// UCX_TLS says over what: shared memory where it may, or tcp.

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/transport/ucx/ucx_transport.hpp"
#include "tests/transport/conformance.hpp"

namespace sparcl {
namespace {

conformance::Limits limits_for(int ranks) {
  return {.largest_bytes = std::size_t{8} << (ranks > 2 ? 18 : 20), .many = ranks > 2 ? 100 : 300};
}

std::string run_rank(int rank, int ranks, const OutOfBandGather& gather) {
  Result<std::unique_ptr<UcxTransport>> transport = UcxTransport::create(rank, gather, {.farewell_s = 0.5});
  if (!transport.ok()) return "create: " + transport.status().message();
  if ((*transport)->size() != ranks || (*transport)->rank() != rank)
    return "the transport has another size, or rank, than it was given";
  conformance::Party party({transport->get()});
  std::string trouble = conformance::run_all(party, limits_for(ranks), [&](const char* check) {
    if (rank == 0) std::printf("ok %s\n", check);
  });
  if (!trouble.empty()) return trouble;
  // Destroyed in different states: with a receive and a large send that nobody will ever match.
  const OperationRef lonely_receive = (*transport)->receive(0, {999'000, 0}, Buffer::allocate(100));
  const OperationRef lonely_send = (*transport)->send(0, {999'001, 0}, Buffer::allocate(3'000'000));
  return lonely_receive->done ? "a receive that nobody sends to is done" : "";
}

int report(int rank, const std::string& trouble) {
  if (trouble.empty()) return 0;
  std::fprintf(stderr, "rank %d: %s\n", rank, trouble.c_str());
  return 1;
}

int run_threads(int ranks) {
  std::vector<Bytes> all(static_cast<std::size_t>(ranks));
  std::barrier meeting(ranks);
  std::atomic<int> failures = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        const auto gather = [&](std::span<const std::byte> own) -> Result<std::vector<Bytes>> {
          all[static_cast<std::size_t>(rank)].assign(own.begin(), own.end());
          meeting.arrive_and_wait();
          return all;
        };
        failures += report(rank, run_rank(rank, ranks, gather));
      });
    }
  }
  return failures == 0 ? 0 : 1;
}

bool move_all(int socket, void* data, std::size_t bytes, bool sends) {
  for (auto* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t moved = sends ? ::send(socket, at, bytes, MSG_NOSIGNAL) : ::recv(socket, at, bytes, 0);
    if (moved <= 0) return false;
    at += moved;
    bytes -= static_cast<std::size_t>(moved);
  }
  return true;
}

bool send_bytes(int socket, Bytes bytes) {
  std::uint64_t size = bytes.size();
  return move_all(socket, &size, sizeof size, true) && move_all(socket, bytes.data(), size, true);
}

bool receive_bytes(int socket, Bytes& bytes) {
  std::uint64_t size = 0;
  if (!move_all(socket, &size, sizeof size, false)) return false;
  bytes.resize(size);
  return move_all(socket, bytes.data(), size, false);
}

// The parent hands everyone's bytes to everyone.
int run_processes(int ranks) {
  std::vector<int> sockets;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 1;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto gather = [&](std::span<const std::byte> own) -> Result<std::vector<Bytes>> {
        std::vector<Bytes> all(static_cast<std::size_t>(ranks));
        bool ok = send_bytes(pair[1], {own.begin(), own.end()});
        for (Bytes& each : all) ok = ok && receive_bytes(pair[1], each);
        if (!ok) return Status(Code::kSystemError, "the launcher is gone");
        return all;
      };
      std::exit(report(rank, run_rank(rank, ranks, gather)));
    }
    ::close(pair[1]);
    sockets.push_back(pair[0]);
    children.push_back(child);
  }
  std::vector<Bytes> all(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < all.size(); ++i) receive_bytes(sockets[i], all[i]);
  for (const int socket : sockets) {
    for (const Bytes& each : all) send_bytes(socket, each);
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
  const bool threads = argc > 2 && std::strcmp(argv[2], "--threads") == 0;
  return threads ? sparcl::run_threads(ranks) : sparcl::run_processes(ranks);
}
