#include "src/model/snapshot.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "src/base/memory_size.hpp"

namespace sparcl::model {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kArrayAlignment = 64;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void Snapshot::Free::operator()(std::byte* bytes) const { std::free(bytes); }

Status Snapshot::make(const codec::BlockMap& map) {
  if (!arrays_.empty()) return {};
  const auto specs = map.arrays();
  std::size_t total = 0;
  for (const codec::ArraySpec& array : specs) total += round_up(array.bytes(), kArrayAlignment);
  const std::size_t bytes =
      round_up(total + 1, total >= kHugePageBytes ? kHugePageBytes : kArrayAlignment);
  // The system gives addresses for memory that it does not have, and ends the process later.
  const std::uint64_t free = available_memory(Paging::kToSwap);
  auto* memory = bytes > free
                     ? nullptr
                     : static_cast<std::byte*>(std::aligned_alloc(
                           total >= kHugePageBytes ? kHugePageBytes : kArrayAlignment, bytes));
  if (memory == nullptr) {
    return Status(Code::kOutOfMemory,
                  fmt::format("no memory for a snapshot of {} bytes (one copy of the model): {} "
                              "bytes are free on this machine, or in the limit of this job",
                              total, free));
  }
  if (total >= kHugePageBytes)
    (void)madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: small pages work, too
  storage_.reset(memory);
  arrays_.reserve(specs.size());
  for (const codec::ArraySpec& array : specs) {
    arrays_.push_back(memory);
    memory += round_up(array.bytes(), kArrayAlignment);
  }
  return {};
}

Status Snapshot::take(const codec::BlockMap& map, std::span<std::byte* const> arrays,
                      const codec::ArraySource* source) {
  SPARCL_RETURN_IF_ERROR(make(map));
  const auto specs = map.arrays();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].bytes() == 0) continue;
    if (arrays[i] != nullptr) {
      std::memcpy(arrays_[i], arrays[i], specs[i].bytes());
    } else {
      source->read(static_cast<std::uint32_t>(i), 0, specs[i].count, arrays_[i]);
    }
  }
  return source != nullptr ? source->status() : Status();
}

}  // namespace sparcl::model
