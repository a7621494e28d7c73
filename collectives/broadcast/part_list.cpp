#include "collectives/broadcast/part_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "src/base/checksum.hpp"

namespace sparcl::collectives::broadcast {
namespace {

constexpr std::array<std::uint64_t, std::tuple_size_v<decltype(PartsSketch::prefixes)>>
    kPrefixParts{1,  2,  3,   4,   6,   8,   12,  16,  24,   32,        48,
                 64, 96, 128, 192, 256, 384, 512, 768, 1024, UINT64_MAX};

}  // namespace

static_assert(std::is_trivially_copyable_v<PartsSketch> &&
              sizeof(PartsSketch) <= comm::kSketchBytes);

PartsSketch sketch_in(std::span<const std::byte> bytes) {
  PartsSketch sketch;
  std::memcpy(&sketch, bytes.data(), sizeof sketch);
  return sketch;
}

PartsSketch sketch_of(std::span<const std::uint64_t> part_hashes) {
  PartsSketch sketch;
  std::uint64_t hash = 1;  // no list at all has zeros
  std::size_t done = 0;
  for (std::size_t i = 0; i < kPrefixParts.size(); ++i) {
    const auto end =
        static_cast<std::size_t>(std::min<std::uint64_t>(kPrefixParts[i], part_hashes.size()));
    for (; done < end; ++done) hash = xxh3_64(std::as_bytes(part_hashes.subspan(done, 1)), hash);
    sketch.prefixes[i] = static_cast<std::uint32_t>(hash);
  }
  return sketch;
}

std::optional<PartRange> first_difference(const PartsSketch& a, const PartsSketch& b) {
  const auto [at, other] = std::mismatch(a.prefixes.begin(), a.prefixes.end(), b.prefixes.begin());
  if (at == a.prefixes.end()) return std::nullopt;
  const auto i = static_cast<std::size_t>(at - a.prefixes.begin());
  const bool is_open = i + 1 == kPrefixParts.size();
  return PartRange{i == 0 ? 0 : kPrefixParts[i - 1], is_open ? UINT64_MAX : kPrefixParts[i] - 1};
}

std::string PartList::describe(const PartRange& range) const {
  const std::uint64_t last = std::min(range.last, count - std::min<std::uint64_t>(count, 1));
  if (range.first >= count) return fmt::format("tensor {}, which is not here", range.first);
  if (range.first == last) return fmt::format("tensor {}, here {}", range.first, name(range.first));
  return fmt::format("a tensor from {} to {}, here {} to {}", range.first, last, name(range.first),
                     name(last));
}

}  // namespace sparcl::collectives::broadcast
