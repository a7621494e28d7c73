#include "tests/device/fake_driver.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace {

struct Region {
  std::uintptr_t device;
  std::byte* bytes;
  std::size_t count;
};
struct Copy {
  std::uintptr_t to, from;
  std::size_t bytes;
  const void* stream;
  bool is_done;
};

std::mutex mutex;
std::vector<Region> regions;
std::vector<Copy> copies;
int failing_from = -1;
int context = 0;  // its address is the only one
thread_local int contexts_entered = 0;

const Region* region_of(std::uintptr_t address) {
  for (const Region& region : regions) {
    if (address >= region.device && address < region.device + region.count) return &region;
  }
  return nullptr;
}

std::byte* reachable(std::uintptr_t address) {
  const Region* const region = region_of(address);
  return region != nullptr ? region->bytes + (address - region->device) : reinterpret_cast<std::byte*>(address);
}

constexpr int kInvalidValue = 1, kInvalidContext = 201, kIllegalAddress = 700;

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer) {
  const std::lock_guard lock(mutex);
  if (region_of(pointer) == nullptr) return kInvalidValue;
  if (attribute == 1)
    *static_cast<void**>(value) = &context;
  else if (attribute == 2)
    *static_cast<unsigned*>(value) = 2;
  else if (attribute == 8)
    *static_cast<int*>(value) = 0;
  else
    return kInvalidValue;
  return 0;
}

FAKE int cuCtxPushCurrent_v2(void* entered) {
  if (entered != &context) return kInvalidContext;
  ++contexts_entered;
  return 0;
}

FAKE int cuCtxPopCurrent_v2(void** left) {
  if (contexts_entered == 0) return kInvalidContext;
  --contexts_entered;
  *left = &context;
  return 0;
}

FAKE int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes, void* stream) {
  const std::lock_guard lock(mutex);
  if (contexts_entered == 0) return kInvalidContext;
  if (failing_from >= 0 && static_cast<int>(copies.size()) >= failing_from) return kIllegalAddress;
  copies.push_back({to, from, bytes, stream, false});
  return 0;
}

FAKE int cuStreamSynchronize(void* stream) {
  const std::lock_guard lock(mutex);
  for (Copy& copy : copies) {
    if (copy.stream != stream || copy.is_done) continue;
    std::memcpy(reachable(copy.to), reachable(copy.from), copy.bytes);
    copy.is_done = true;
  }
  return 0;
}

FAKE int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered" : "an error of the fake driver";
  return 0;
}

namespace sparcl::test {

FakeDeviceMemory fake_device_memory(std::size_t bytes) {
  const int file = ::memfd_create("device", 0);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memfd_create");
  void* const seen = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  void* const device = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  ::close(file);
  if (seen == MAP_FAILED || device == MAP_FAILED) throw std::runtime_error("mmap");
  const std::lock_guard lock(mutex);
  regions.push_back({reinterpret_cast<std::uintptr_t>(device), static_cast<std::byte*>(seen), bytes});
  return {device, seen};
}

void fail_copies_from(int copy) {
  const std::lock_guard lock(mutex);
  failing_from = copy < 0 ? -1 : static_cast<int>(copies.size()) + copy;
}

int copies_made() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(copies.size());
}

int copies_in_stream(const void* stream) {
  const std::lock_guard lock(mutex);
  int count = 0;
  for (const Copy& copy : copies) count += copy.stream == stream ? 1 : 0;
  return count;
}

}  // namespace sparcl::test
