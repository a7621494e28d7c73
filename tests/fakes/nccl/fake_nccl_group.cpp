// Sends and receives of the stand-in for NCCL: in groups alone, which all ranks of the communicator
// make.
#include <cstring>
#include <utility>

#include "tests/fakes/driver/fake_driver.hpp"
#include "tests/fakes/nccl/fake_nccl_world.hpp"

namespace sparcl::test::fake {
namespace {

struct Group {  // of a thread
  int depth = 0;
  int error = kSuccess;
  ncclComm* comm = nullptr;
  void* stream = nullptr;
  std::vector<Transfer> sends, receives;
};
thread_local Group group;

int add(const char* function, std::vector<Transfer>& transfers, const Transfer& transfer,
        ncclComm* comm, void* stream) {
  const std::lock_guard lock(world().mutex);
  if (group.depth == 0) std::abort();  // NCCL takes it; alone it would wait for its peer
  int result =
      comm->is_aborted || comm->pending_polls > 0 ? kInvalidUsage : counted(function, comm->rank);
  if (transfer.peer < 0 || transfer.peer >= comm->clique->size ||
      (group.comm != nullptr && group.comm != comm))
    result = kInvalidArgument;
  group.comm = comm;
  group.stream = stream;
  if (result == kSuccess)
    transfers.push_back(transfer);
  else
    group.error = result;
  return result;
}

// Those of one rank with another match in their order.
void exchange(Step& step) {
  const std::size_t ranks = step.sent_to.size();
  step.results.resize(ranks);
  std::size_t taken = 0, sent = 0;
  for (const auto& each : step.sent_to) sent += each.size();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::size_t> seen(ranks, 0);  // of the peer's sends
    for (const Transfer& receive : step.received_from[rank]) {
      const auto peer = static_cast<std::size_t>(receive.peer);
      const std::vector<Transfer>& sends = step.sent_to[peer];
      std::size_t& next = seen[peer];
      while (next < sends.size() && sends[next].peer != static_cast<int>(rank)) ++next;
      if (next == sends.size() || sends[next].count != receive.count)
        std::abort();  // NCCL would hang, or worse
      const auto* const bytes = static_cast<const std::byte*>(sends[next].bytes);
      step.results[rank].insert(step.results[rank].end(), bytes, bytes + receive.count);
      ++next;
      ++taken;
    }
  }
  if (taken != sent) std::abort();
}

void run(ncclComm* comm, std::uint64_t number, const std::vector<Transfer>& sends,
         const std::vector<Transfer>& receives) {
  const auto rank = static_cast<std::size_t>(comm->rank);
  meet(
      comm, number, "sends and receives",
      [&](Step& step) {
        step.sent_to.resize(static_cast<std::size_t>(comm->clique->size));
        step.received_from.resize(step.sent_to.size());
        step.sent_to[rank] = sends;
        step.received_from[rank] = receives;
      },
      exchange,
      [&](Step& step) {
        const std::byte* from = step.results[rank].data();
        for (const Transfer& receive : receives) {
          std::memcpy(receive.bytes, from, receive.count);
          from += receive.count;
        }
      });
}

// As the comm does not block, most of it goes on in a thread of NCCL's.
int end() {
  const Group ended = std::exchange(group, {});
  if (ended.error != kSuccess) return ended.error;
  if (ended.comm == nullptr) return kSuccess;
  const int result = begun("ncclGroupEnd", ended.comm);
  if (result != kInProgress || ended.comm->later_result != kSuccess) return result;
  const std::uint64_t number = number_of(ended.comm, ended.stream);
  enqueue(ended.stream, [=] { run(ended.comm, number, ended.sends, ended.receives); });
  return result;
}

}  // namespace

bool is_grouped() { return group.depth > 0; }

}  // namespace sparcl::test::fake

using namespace sparcl::test::fake;  // NOLINT: the stand-in's own

FAKE int ncclGroupStart() {
  const std::lock_guard lock(world().mutex);
  if (const int result = counted("ncclGroupStart", 0); result != kSuccess) return result;
  ++world().groups;
  ++group.depth;
  return kSuccess;
}

FAKE int ncclGroupEnd() {
  const std::lock_guard lock(world().mutex);
  if (group.depth == 0) return kInvalidUsage;
  --world().groups;
  return --group.depth > 0 ? kSuccess : end();
}

FAKE int ncclSend(const void* send, std::size_t count, int type, int peer, ncclComm* comm,
                  void* stream) {
  void* const bytes = sparcl::test::reachable(send);
  return add("ncclSend", group.sends, {peer, bytes, count * bytes_of(type)}, comm, stream);
}

FAKE int ncclRecv(void* receive, std::size_t count, int type, int peer, ncclComm* comm,
                  void* stream) {
  void* const bytes = sparcl::test::reachable(receive);
  return add("ncclRecv", group.receives, {peer, bytes, count * bytes_of(type)}, comm, stream);
}
