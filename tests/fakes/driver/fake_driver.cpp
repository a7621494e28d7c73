#include "tests/fakes/driver/fake_driver.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace sparcl::test {
struct FakeGraph {
  std::vector<std::function<void()>> work;
};
}  // namespace sparcl::test

namespace {

using sparcl::test::FakeGraph;

struct Region {
  std::uintptr_t device;
  std::byte* bytes;
  std::size_t count;
  int gpu;
  bool is_own;  // cuMemAlloc's
};

struct Stream {
  std::deque<std::function<void()>> work;
  std::uint64_t enqueued = 0, done = 0;
  bool is_running = false;
  std::shared_ptr<FakeGraph> graph;  // being captured
  bool is_invalid = false;           // its capture
  std::size_t gpu = 0;
  int launches = 0;
  int stalls_after = -1;  // so many things that are still to be put
  bool is_stalled = false;
  int gone_on = 0;  // how often
};

struct Copy {
  const void* stream;
  std::size_t bytes;
  std::uintptr_t from;  // of device memory, to the host
  bool is_pageable;
};

struct Event {
  std::size_t gpu = 0;
  const void* stream = nullptr;
  std::uint64_t at = 0;  // over when so much of the stream is done
};

// Never destroyed: a thread may still be in a stream's work when the process ends.
struct World {
  World() {
    copies.reserve(1 << 20);
  }  // what counts allocations of the library is not to count these
  std::mutex mutex;
  std::condition_variable moved;
  std::vector<Region> regions;
  std::map<const void*, Stream> streams;
  std::vector<Copy> copies;
  int failing_from = -1;
  int launches_left = -1, events_left = -1;  // until they fail; -1: they do not
  bool is_full = false;
  std::size_t free_bytes = 0;                    // as it is said; 0: all
  std::map<std::uintptr_t, std::size_t> pinned;  // the bytes of each piece
  int captures = 0;
  std::array<int, 4> contexts{};  // a GPU's is known by its address
};
World& world() {
  static World* const made = new World;
  return *made;
}

thread_local std::vector<void*> contexts_entered;
thread_local bool has_no_gpu = false;
std::atomic<bool> shares_gpus = false;
thread_local int capture_mode = 0;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidContext = 201, kInvalidHandle = 400,
              kNotReady = 600, kIllegalAddress = 700, kLaunchFailed = 719,
              kCaptureUnsupported = 900;

// The GPU whose context this thread is in.
std::size_t current_gpu() {
  return contexts_entered.empty()
             ? 0
             : static_cast<std::size_t>(static_cast<int*>(contexts_entered.back()) -
                                        world().contexts.data());
}

bool is_at_end(int& left) {
  if (left == 0) return true;
  if (left > 0) --left;
  return false;
}

// The null stream is each context's own; it is one here.
bool is_of_current_gpu(const void* stream) {
  return stream == nullptr || world().streams[stream].gpu == current_gpu();
}

const Region* region_of(std::uintptr_t address) {
  for (const Region& region : world().regions) {
    if (address >= region.device && address < region.device + region.count) return &region;
  }
  return nullptr;
}

bool is_pinned(std::uintptr_t address) {
  const auto next = world().pinned.upper_bound(address);
  return next != world().pinned.begin() &&
         address < std::prev(next)->first + std::prev(next)->second;
}

// Runs what the stream holds, on a thread of its own, as what it holds may wait for other streams.
// The mutex is held.
void kick(const void* name) {
  Stream& stream = world().streams[name];
  if (stream.is_running || stream.work.empty()) return;
  stream.is_running = true;
  std::thread([&stream] {
    World& all = world();
    std::unique_lock lock(all.mutex);
    while (!stream.work.empty()) {
      const std::function<void()> work = std::move(stream.work.front());
      stream.work.pop_front();
      lock.unlock();
      work();
      lock.lock();
      ++stream.done;
      all.moved.notify_all();
    }
    stream.is_running = false;
    all.moved.notify_all();
  }).detach();
}

void put(const void* name, std::function<void()> work) {
  Stream& stream = world().streams[name];
  if (stream.graph != nullptr) {
    stream.graph->work.push_back(std::move(work));
    return;
  }
  if (stream.stalls_after >= 0 && stream.stalls_after-- == 0) {
    stream.work.push_back([&stream, gone_on = stream.gone_on] {
      std::unique_lock lock(world().mutex);
      stream.is_stalled = stream.gone_on == gone_on;
      world().moved.wait(lock, [&] { return stream.gone_on != gone_on; });
      stream.is_stalled = false;
    });
    ++stream.enqueued;
  }
  stream.work.push_back(std::move(work));
  ++stream.enqueued;
}

// What must not be done on a stream that is being captured.
bool spoils_capture(const void* name) {
  Stream& stream = world().streams[name];
  if (stream.graph != nullptr) stream.is_invalid = true;
  return stream.graph != nullptr;
}
// What must not be done while any is, but in relaxed mode.
bool is_unsafe_now() {
  if (world().captures == 0 || capture_mode == 2) return false;
  for (auto& [name, stream] : world().streams) stream.is_invalid |= stream.graph != nullptr;
  return true;
}

sparcl::test::FakeDeviceMemory map_memory(std::size_t bytes, int gpu, bool is_own) {
  const int file = ::memfd_create("device", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error("memfd_create");
  void* const seen = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const device = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  ::close(file);
  if (seen == MAP_FAILED || device == MAP_FAILED) throw std::runtime_error("mmap");
  const std::lock_guard lock(world().mutex);
  world().regions.push_back({reinterpret_cast<std::uintptr_t>(device),
                             static_cast<std::byte*>(seen), bytes, gpu, is_own});
  return {device, seen};
}

}  // namespace

namespace sparcl::test {

FakeDeviceMemory fake_device_memory(std::size_t bytes, int gpu) {
  return map_memory(bytes, gpu, false);
}

void* reachable(const void* address) {
  const std::lock_guard lock(world().mutex);
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const Region* const region = region_of(number);
  return region != nullptr ? region->bytes + (number - region->device) : const_cast<void*>(address);
}

void fail_copies_from(int copy) {
  const std::lock_guard lock(world().mutex);
  world().failing_from = copy < 0 ? -1 : static_cast<int>(world().copies.size()) + copy;
}

void fail_allocations(bool fails) {
  const std::lock_guard lock(world().mutex);
  world().is_full = fails;
}

void set_free_memory(std::size_t bytes) {
  const std::lock_guard lock(world().mutex);
  world().free_bytes = bytes;
}

int copies_made() {
  const std::lock_guard lock(world().mutex);
  return static_cast<int>(world().copies.size());
}

int copies_in_stream(const void* stream) {
  const std::lock_guard lock(world().mutex);
  return static_cast<int>(std::ranges::count(world().copies, stream, &Copy::stream));
}

std::size_t bytes_copied(const void* stream) {
  const std::lock_guard lock(world().mutex);
  std::size_t bytes = 0;
  for (const Copy& copy : world().copies) bytes += copy.stream == stream ? copy.bytes : 0;
  return bytes;
}

int copies_out_of(const void* address, bool only_pageable) {
  const std::lock_guard lock(world().mutex);
  const Region* const region = region_of(reinterpret_cast<std::uintptr_t>(address));
  const auto is_one = [&](const Copy& copy) {
    return copy.from >= region->device && copy.from < region->device + region->count &&
           (copy.is_pageable || !only_pageable);
  };
  return region == nullptr ? 0 : static_cast<int>(std::ranges::count_if(world().copies, is_one));
}

void enqueue(const void* stream, std::function<void()> work) {
  const std::lock_guard lock(world().mutex);
  put(stream, std::move(work));
}

int launch_kernel(const void* stream, std::function<void()> work) {
  const std::lock_guard lock(world().mutex);
  if (!is_of_current_gpu(stream)) return kInvalidHandle;
  if (is_at_end(world().launches_left)) return kLaunchFailed;
  ++world().streams[stream].launches;
  put(stream, std::move(work));
  return 0;
}

int launches_in_stream(const void* stream) {
  const std::lock_guard lock(world().mutex);
  return world().streams[stream].launches;
}

void fail_launches_from(int launch) {
  const std::lock_guard lock(world().mutex);
  world().launches_left = launch;
}

void fail_events_from(int event) {
  const std::lock_guard lock(world().mutex);
  world().events_left = event;
}

void put_on_gpu(const void* stream, int gpu) {
  const std::lock_guard lock(world().mutex);
  world().streams[stream].gpu = static_cast<std::size_t>(gpu);
}

void stall(const void* stream, int after) {
  const std::lock_guard lock(world().mutex);
  world().streams[stream].stalls_after = after;
}

void go_on(const void* stream) {
  const std::lock_guard lock(world().mutex);
  world().streams[stream].stalls_after = -1;
  ++world().streams[stream].gone_on;
  world().moved.notify_all();
}

bool is_stalled(const void* stream) {
  const std::lock_guard lock(world().mutex);
  kick(stream);
  return world().streams[stream].is_stalled;
}

void begin_capture(const void* stream) {
  const std::lock_guard lock(world().mutex);
  world().streams[stream].graph = std::make_shared<FakeGraph>();
  world().streams[stream].is_invalid = false;
  ++world().captures;
}

std::shared_ptr<FakeGraph> end_capture(const void* stream) {
  const std::lock_guard lock(world().mutex);
  --world().captures;
  std::shared_ptr<FakeGraph> graph = std::exchange(world().streams[stream].graph, nullptr);
  return world().streams[stream].is_invalid ? nullptr : graph;
}

void launch(const FakeGraph& graph, const void* stream) {
  for (const std::function<void()>& work : graph.work) enqueue(stream, work);
}

void share_gpus(bool are_shared) { shares_gpus = are_shared; }

void forget_gpu(bool is_forgotten) { has_no_gpu = is_forgotten; }

int allocations_alive() {
  const std::lock_guard lock(world().mutex);
  return static_cast<int>(std::ranges::count(world().regions, true, &Region::is_own)) +
         static_cast<int>(world().pinned.size());
}

}  // namespace sparcl::test

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  const std::lock_guard lock(world().mutex);
  const Region* const region = region_of(pointer);
  if (region == nullptr) return kInvalidValue;
  if (attribute == 1)
    *static_cast<void**>(value) = &world().contexts[static_cast<std::size_t>(region->gpu)];
  else if (attribute == 2)
    *static_cast<unsigned*>(value) = 2;
  else if (attribute == 8)
    *static_cast<int*>(value) = 0;
  else if (attribute == 9)
    *static_cast<int*>(value) = region->gpu;
  else
    return kInvalidValue;
  return 0;
}

FAKE int cuCtxPushCurrent_v2(void* entered) {
  const bool is_known =
      std::ranges::any_of(world().contexts, [&](int& context) { return &context == entered; });
  if (!is_known) return kInvalidContext;
  contexts_entered.push_back(entered);
  return 0;
}

FAKE int cuCtxPopCurrent_v2(void** left) {
  if (contexts_entered.empty()) return kInvalidContext;
  *left = contexts_entered.back();
  contexts_entered.pop_back();
  return 0;
}

FAKE int cuCtxGetCurrent(void** current) {
  *current = has_no_gpu && contexts_entered.empty() ? nullptr : &world().contexts[current_gpu()];
  return 0;
}

FAKE int cuCtxGetDevice(int* gpu) {
  *gpu = static_cast<int>(current_gpu());
  return 0;
}

// Each thread is taken for one with a GPU of its own, unless they share them.
FAKE int cuDeviceGetUuid_v2(unsigned char (*id)[16], int gpu) {
  static std::atomic<unsigned char> threads = 1;
  thread_local const unsigned char own = threads++;
  std::fill_n(*id, 16, static_cast<unsigned char>(0));
  (*id)[0] = shares_gpus ? 0xff : own;
  (*id)[1] = static_cast<unsigned char>(gpu);
  return 0;
}

FAKE int cuStreamGetCtx(void* stream, void** context) {
  const std::lock_guard lock(world().mutex);
  *context = &world().contexts[stream == nullptr ? current_gpu() : world().streams[stream].gpu];
  return 0;
}

FAKE int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes,
                       void* stream) {
  const std::lock_guard lock(world().mutex);
  if (contexts_entered.empty()) return kInvalidContext;
  if (!is_of_current_gpu(stream)) return kInvalidHandle;
  if (spoils_capture(stream)) return kCaptureUnsupported;  // of memory that is not pinned
  if (world().failing_from >= 0 && static_cast<int>(world().copies.size()) >= world().failing_from)
    return kIllegalAddress;
  world().copies.push_back({stream, bytes,
                            region_of(from) != nullptr && region_of(to) == nullptr ? from : 0,
                            region_of(to) == nullptr && !is_pinned(to)});
  put(stream, [to, from, bytes] {
    std::memcpy(sparcl::test::reachable(reinterpret_cast<void*>(to)),
                sparcl::test::reachable(reinterpret_cast<void*>(from)), bytes);
  });
  return 0;
}

FAKE int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
  {
    const std::lock_guard lock(world().mutex);
    if (contexts_entered.empty()) return kInvalidContext;
    if (is_unsafe_now()) return kCaptureUnsupported;
    if (world().is_full) return kOutOfMemory;
  }
  if (bytes == 0) return kInvalidValue;
  const sparcl::test::FakeDeviceMemory made =
      map_memory(bytes, static_cast<int>(current_gpu()), true);
  if (bytes < (1U << 20)) std::memset(made.bytes, 0xa5, bytes);  // nothing is zero by chance
  *pointer = reinterpret_cast<std::uintptr_t>(made.device);
  return 0;
}

FAKE int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  const std::lock_guard lock(world().mutex);
  if (contexts_entered.empty()) return kInvalidContext;
  *total_bytes = std::size_t{64} << 30;
  *free_bytes = world().free_bytes > 0 ? world().free_bytes : *total_bytes;
  return 0;
}

FAKE int cuMemFree_v2(unsigned long long pointer) {
  const std::lock_guard lock(world().mutex);
  if (contexts_entered.empty()) return kInvalidContext;
  if (is_unsafe_now()) return kCaptureUnsupported;
  const auto found =
      std::ranges::find(world().regions, static_cast<std::uintptr_t>(pointer), &Region::device);
  if (found == world().regions.end() || !found->is_own) return kInvalidValue;
  ::munmap(found->bytes, found->count);
  world().regions.erase(found);  // its addresses stay taken, and out of reach
  return 0;
}

FAKE int cuMemsetD8Async(unsigned long long to, unsigned char value, std::size_t bytes,
                         void* stream) {
  const std::lock_guard lock(world().mutex);
  if (contexts_entered.empty()) return kInvalidContext;
  if (region_of(to) == nullptr) return kInvalidValue;
  put(stream, [to, value, bytes] {
    std::memset(sparcl::test::reachable(reinterpret_cast<void*>(to)), value, bytes);
  });
  return 0;
}

FAKE int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  const std::lock_guard lock(world().mutex);
  if (contexts_entered.empty()) return kInvalidContext;
  if (is_unsafe_now()) return kCaptureUnsupported;
  *pointer = std::malloc(bytes);
  std::memset(*pointer, 0xa5, bytes);
  world().pinned[reinterpret_cast<std::uintptr_t>(*pointer)] = bytes;
  return 0;
}

FAKE int cuMemFreeHost(void* pointer) {
  const std::lock_guard lock(world().mutex);
  if (contexts_entered.empty()) return kInvalidContext;
  world().pinned.erase(reinterpret_cast<std::uintptr_t>(pointer));
  std::free(pointer);
  return 0;
}

FAKE int cuStreamCreate(void** stream, unsigned) {
  const std::lock_guard lock(world().mutex);
  *stream = new int;
  world().streams[*stream].gpu = current_gpu();
  return 0;
}

FAKE int cuStreamDestroy_v2(void* stream) {
  delete static_cast<int*>(stream);
  return 0;
}

FAKE int cuStreamSynchronize(void* stream) {
  std::unique_lock lock(world().mutex);
  if (spoils_capture(stream)) return kCaptureUnsupported;
  Stream& own = world().streams[stream];
  const std::uint64_t until = own.enqueued;
  kick(stream);
  world().moved.wait(lock, [&] { return own.done >= until; });
  return 0;
}

FAKE int cuStreamQuery(void* stream) {
  const std::lock_guard lock(world().mutex);
  if (spoils_capture(stream)) return kCaptureUnsupported;
  kick(stream);
  const Stream& own = world().streams[stream];
  return own.done == own.enqueued ? 0 : kNotReady;
}

FAKE int cuStreamIsCapturing(void* stream, int* status) {
  const std::lock_guard lock(world().mutex);
  *status = world().streams[stream].graph != nullptr ? 1 : 0;
  return 0;
}

FAKE int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return 0;
}

FAKE int cuEventCreate(void** event, unsigned) {
  *event = new Event{current_gpu()};
  return 0;
}

FAKE int cuEventRecord(void* event, void* stream) {
  const std::lock_guard lock(world().mutex);
  if (spoils_capture(stream))
    return kCaptureUnsupported;  // what the library does with events is not for captures
  Event& own = *static_cast<Event*>(event);
  if (stream != nullptr && own.gpu != world().streams[stream].gpu) return kInvalidHandle;
  if (is_at_end(world().events_left)) return kLaunchFailed;
  own = {own.gpu, stream, world().streams[stream].enqueued};
  return 0;
}

FAKE int cuEventQuery(void* event) {
  const std::lock_guard lock(world().mutex);
  const Event& own = *static_cast<Event*>(event);
  kick(own.stream);
  return world().streams[own.stream].done >= own.at ? 0 : kNotReady;
}

FAKE int cuEventSynchronize(void* event) {
  std::unique_lock lock(world().mutex);
  const Event own = *static_cast<Event*>(event);
  kick(own.stream);
  world().moved.wait(lock, [&] { return world().streams[own.stream].done >= own.at; });
  return 0;
}

FAKE int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}

FAKE int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const std::lock_guard lock(world().mutex);
  if (spoils_capture(stream)) return kCaptureUnsupported;
  const Event own = *static_cast<Event*>(event);
  put(stream, [own] {
    std::unique_lock inside(world().mutex);
    kick(own.stream);
    world().moved.wait(inside, [&] { return world().streams[own.stream].done >= own.at; });
  });
  return 0;
}

FAKE int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress  ? "an illegal memory access was encountered"
          : error == kLaunchFailed  ? "unspecified launch failure"
          : error == kInvalidHandle ? "invalid resource handle"
                                    : "an error of the fake driver";
  return 0;
}

// What programs ask to say what is there.

FAKE int cuInit(unsigned) { return 0; }

FAKE int cuDriverGetVersion(int* version) {
  *version = std::getenv("FAKE_DRIVER") != nullptr ? std::atoi(std::getenv("FAKE_DRIVER")) : 99000;
  return 0;
}

FAKE int cuDeviceGetCount(int* count) {
  *count = std::getenv("FAKE_GPUS") != nullptr ? std::atoi(std::getenv("FAKE_GPUS")) : 1;
  return 0;
}

FAKE int cuDeviceGet(int* device, int number) {
  *device = number;
  return 0;
}

FAKE int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU %d", device);
  return 0;
}

FAKE int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{3} << 30;
  return 0;
}

FAKE int cuDeviceGetAttribute(int* value, int attribute, int) {
  const char* const major = std::getenv("FAKE_CAPABILITY");
  *value = attribute != 75 ? 0 : major != nullptr ? std::atoi(major) : 9;
  return 0;
}
