#include "tests/fakes/nccl/fake_nccl.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "tests/fakes/driver/fake_driver.hpp"
#include "tests/fakes/nccl/fake_nccl_world.hpp"

using namespace sparcl::test::fake;  // NOLINT: the stand-in's own

namespace {

using sparcl::test::enqueue;
using sparcl::test::reachable;

struct UniqueId {
  char internal[128];
};

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T combined(T a, T b, int op) {
  if (op == 1) return static_cast<T>(a * b);
  if (op == 2) return a > b ? a : b;
  if (op == 3) return a < b ? a : b;
  return static_cast<T>(a + b);
}

// In a ring: the first rank changes from element to element.
template <class Stored, class T, class From, class To>
void reduce_as(const Step& step, std::size_t count, int op, std::byte* result, From from, To to) {
  const std::size_t ranks = step.sends.size();
  for (std::size_t i = 0; i < count; ++i) {
    T sum{};
    for (std::size_t r = 0; r < ranks; ++r) {
      Stored stored;
      std::memcpy(&stored,
                  static_cast<const std::byte*>(step.sends[(i + r) % ranks]) + i * sizeof stored,
                  sizeof stored);
      sum = r == 0 ? from(stored) : from(to(combined(sum, from(stored), op)));
    }
    if (op == 4) sum = static_cast<T>(sum / static_cast<T>(ranks));
    const Stored stored = to(sum);
    std::memcpy(result + i * sizeof stored, &stored, sizeof stored);
  }
}

template <class T>
void reduce_plain(const Step& step, std::size_t count, int op, std::byte* result) {
  reduce_as<T, T>(
      step, count, op, result, [](T value) { return value; }, [](T value) { return value; });
}

void reduce(const Step& step, std::size_t count, int type, int op, std::byte* result) {
  switch (type) {
    case 0:
      return reduce_plain<std::int8_t>(step, count, op, result);
    case 1:
      return reduce_plain<std::uint8_t>(step, count, op, result);
    case 2:
      return reduce_plain<std::int32_t>(step, count, op, result);
    case 3:
      return reduce_plain<std::uint32_t>(step, count, op, result);
    case 4:
      return reduce_plain<std::int64_t>(step, count, op, result);
    case 5:
      return reduce_plain<std::uint64_t>(step, count, op, result);
    case 7:
      return reduce_plain<float>(step, count, op, result);
    case 8:
      return reduce_plain<double>(step, count, op, result);
    case 9:
      return reduce_as<std::uint16_t, float>(step, count, op, result, from_bfloat16, to_bfloat16);
    default:
      std::abort();  // what this stand-in does not do
  }
}

template <class Work>
void meet_with(ncclComm* comm, std::uint64_t number, const std::string& call, const void* send,
               void* receive, std::size_t receive_bytes, Work work) {
  meet(
      comm, number, call,
      [&](Step& step) {
        step.sends.resize(static_cast<std::size_t>(comm->clique->size));
        step.sends[static_cast<std::size_t>(comm->rank)] = reachable(send);
      },
      [&](Step& step) {
        step.result.resize(receive_bytes);
        work(step, step.result.data());
      },
      [&](Step& step) { std::memcpy(reachable(receive), step.result.data(), receive_bytes); });
}

// GPU 0, but where the test wants another.
int wanted_gpu(ncclComm* comm) {
  const std::lock_guard lock(world().mutex);
  return counted("ncclCommCuDevice", comm->rank);
}

}  // namespace

std::size_t sparcl::test::fake::bytes_of(int type) {
  constexpr std::size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[type];
}

FAKE int ncclGetVersion(int* version) {
  *version = 22809;
  return kSuccess;
}

FAKE const char* ncclGetErrorString(int result) {
  return result == 2   ? "unhandled system error"
         : result == 6 ? "remote process exited or there was a network error"
                       : "an error";
}

FAKE const char* ncclGetLastError(ncclComm*) { return "as the test wanted it"; }

FAKE int ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(world().mutex);
  if (const int wanted = counted("ncclGetUniqueId", 0); wanted != kSuccess) return wanted;
  *id = {};
  id->internal[0] = 0;  // zeros may stand anywhere
  std::snprintf(id->internal + 1, sizeof id->internal - 1, "fake %d", ++world().ids);
  return kSuccess;
}

FAKE int ncclCommInitRankConfig(ncclComm** comm, int size, UniqueId id, int rank, void* config) {
  struct Config {
    std::size_t bytes;
    unsigned magic, version;
    int blocking;
  };
  Config given;
  std::memcpy(&given, config, sizeof given);
  if (given.magic != 0xcafebeef || given.blocking != 0 || given.version < 21400)
    return kInvalidArgument;
  const std::lock_guard lock(world().mutex);
  const int wanted = counted("ncclCommInitRankConfig", rank);
  auto& clique = world().cliques[std::string(id.internal, sizeof id.internal)];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->size = size;
  auto* const made = new ncclComm{.clique = clique, .rank = rank};
  *comm = made;
  ++world().alive;
  made->is_held = world().held.contains(rank);
  if (!clique->ranks.insert(rank).second) made->async_error = kInvalidUsage;
  if (wanted != kSuccess) made->async_error = wanted;
  if (!made->is_held && made->async_error == kSuccess) ++clique->came;
  return kInProgress;
}

FAKE int ncclCommCount(ncclComm* comm, int* count) {
  *count = comm->clique->size;
  return kSuccess;
}

FAKE int ncclCommUserRank(ncclComm* comm, int* rank) {
  *rank = comm->rank;
  return kSuccess;
}

FAKE int ncclCommCuDevice(ncclComm* comm, int* device) {
  *device = wanted_gpu(comm);
  return kSuccess;
}

FAKE int ncclCommGetAsyncError(ncclComm* comm, int* error) {
  const std::lock_guard lock(world().mutex);
  if (const auto failure = world().failures.find({"stream", comm->rank});
      failure != world().failures.end()) {
    comm->async_error = failure->second;
    world().failures.erase(failure);
  }
  *error = comm->async_error;
  if (*error != kSuccess) return kSuccess;
  if (comm->clique->came < comm->clique->size) {
    *error = kInProgress;
  } else if (comm->pending_polls > 0) {
    const bool is_held = world().held_calls.contains(comm->rank);
    *error = is_held || --comm->pending_polls > 0 ? kInProgress : comm->later_result;
  }
  return kSuccess;
}

FAKE int ncclCommFinalize(ncclComm* comm) {
  const std::lock_guard lock(world().mutex);
  return begun("ncclCommFinalize", comm);
}

FAKE int ncclCommDestroy(ncclComm* comm) {
  const std::lock_guard lock(world().mutex);
  --world().alive;
  delete comm;
  return kSuccess;
}

FAKE int ncclCommAbort(ncclComm* comm) {
  const std::lock_guard lock(world().mutex);
  comm->is_aborted = true;
  --world().alive;
  ++world().aborts;
  world().moved.notify_all();
  return kSuccess;  // it is not freed: streams may still be in its work
}

FAKE int ncclAllReduce(const void* send, void* receive, std::size_t count, int type, int op,
                       ncclComm* comm, void* stream) {
  const std::lock_guard lock(world().mutex);
  const int result = begun("ncclAllReduce", comm);
  if (result != kInProgress || comm->later_result != kSuccess) return result;
  const std::uint64_t number = number_of(comm, stream);
  enqueue(stream, [=] {
    meet_with(comm, number,
              "all-reduce " + std::to_string(count) + " of " + std::to_string(type) + " by " +
                  std::to_string(op),
              send, receive, count * bytes_of(type),
              [=](const Step& step, std::byte* into) { reduce(step, count, type, op, into); });
  });
  return result;
}

FAKE int ncclBroadcast(const void* send, void* receive, std::size_t count, int type, int root,
                       ncclComm* comm, void* stream) {
  const std::lock_guard lock(world().mutex);
  const int result = begun("ncclBroadcast", comm);
  if (result != kInProgress || comm->later_result != kSuccess) return result;
  const std::size_t bytes = count * bytes_of(type);
  const std::uint64_t number = number_of(comm, stream);
  enqueue(stream, [=] {
    meet_with(comm, number, "broadcast " + std::to_string(bytes) + " of " + std::to_string(root),
              send, receive, bytes, [=](const Step& step, std::byte* into) {
                std::memcpy(into, step.sends[static_cast<std::size_t>(root)], bytes);
              });
  });
  return result;
}

FAKE int ncclAllGather(const void* send, void* receive, std::size_t count, int type, ncclComm* comm,
                       void* stream) {
  const std::lock_guard lock(world().mutex);
  const int result = begun("ncclAllGather", comm);
  if (result != kInProgress || comm->later_result != kSuccess) return result;
  const std::size_t bytes = count * bytes_of(type);
  const std::uint64_t number = number_of(comm, stream);
  enqueue(stream, [=] {
    meet_with(comm, number, "all-gather " + std::to_string(bytes), send, receive,
              bytes * static_cast<std::size_t>(comm->clique->size),
              [=](const Step& step, std::byte* into) {
                for (std::size_t rank = 0; rank < step.sends.size(); ++rank)
                  std::memcpy(into + rank * bytes, step.sends[rank], bytes);
              });
  });
  return result;
}
