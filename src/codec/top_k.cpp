#include "src/codec/top_k.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "src/codec/block_map.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kSampleCount =
    65536;  // heuristic: 0.1 ms; its guess is off by 4 sigma in one array of 30,000

// The smallest key of those above which about k elements of the array lie, on the safe side: too
// low costs a prune, too high a pass.
std::uint64_t guess_least(const std::byte* array, std::uint64_t count, DataType type,
                          std::uint64_t k, const kernels::KernelSet& kernels) {
  const kernels::SelectKernels& select = kernels.select_of(type);
  const std::uint64_t samples = std::min(count, kSampleCount);
  if (count <= 4 * kSampleCount) return 1;
  std::vector<std::uint64_t> keys(samples);
  const std::uint64_t stride = count / samples;
  std::uint64_t random = 0x9e3779b97f4a7c15;
  for (std::uint64_t i = 0; i < samples; ++i) {  // one of each stratum, so that a pattern in the
                                                 // array is not hit or missed as a whole
    random = random * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t at = i * stride + (random >> 33) % stride;
    constexpr std::uint16_t kFirst = 0;
    select.magnitude_keys(array + at * element_bytes(type), &kFirst, 1, 0,
                          std::numeric_limits<std::uint64_t>::max(), &keys[i]);
  }
  const double expected =
      static_cast<double>(k) * static_cast<double>(samples) / static_cast<double>(count);
  std::uint64_t sigma = 1;
  while (static_cast<double>(sigma) * static_cast<double>(sigma) < expected) ++sigma;
  const std::uint64_t rank = static_cast<std::uint64_t>(expected) + 4 * sigma + 4;
  if (rank >= samples) return 1;
  std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(rank), keys.end(),
                   std::greater<>());
  return std::max<std::uint64_t>(keys[rank], 1);
}

void collect(const std::byte* array, std::uint64_t count, DataType type, std::uint64_t least,
             const kernels::KernelSet& kernels, LargestK& largest) {
  const kernels::SelectKernels& select = kernels.select_of(type);
  const std::uint64_t cap = magnitude_cap(type);
  std::vector<std::uint16_t> positions(kBlockElements + kernels::kPositionSlack);
  std::vector<std::uint64_t> keys(kBlockElements);
  for (std::uint64_t first = 0; first < count; first += kBlockElements) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlockElements, count - first));
    const std::byte* block = array + first * element_bytes(type);
    const std::size_t found =
        select.find_at_least(block, size, 0, std::max(least, largest.least()), positions.data());
    select.magnitude_keys(block, positions.data(), found, 0, cap, keys.data());
    for (std::size_t i = 0; i < found; ++i) largest.add(first + positions[i], keys[i]);
  }
}

}  // namespace

LargestK::LargestK(std::uint64_t k)
    : k_(k),
      capacity_(static_cast<std::size_t>(std::min<std::uint64_t>(
                    k + k / 2, std::numeric_limits<std::size_t>::max() / 64)) +
                4096) {}

void LargestK::clear() {
  entries_.clear();
  least_ = 1;
}

// Cuts the entries to k. The k-th key is found by counting keys in 4,096 ranges and sorting only
// the range that holds it.
void LargestK::prune() {
  if (entries_.size() <= k_) return;
  if (k_ == 0) {
    entries_.clear();
    least_ = std::numeric_limits<std::uint64_t>::max();
    return;
  }
  std::uint64_t low = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t high = 0;
  for (const Entry& entry : entries_) {
    low = std::min(low, entry.key);
    high = std::max(high, entry.key);
  }
  const unsigned width = static_cast<unsigned>(std::bit_width(high - low));
  const unsigned shift = width > 12 ? width - 12 : 0;
  std::array<std::size_t, 4096> counts{};
  for (const Entry& entry : entries_) ++counts[(entry.key - low) >> shift];
  std::size_t range = counts.size() - 1;
  std::uint64_t above = 0;
  while (above + counts[range] < k_) above += counts[range--];
  std::vector<std::uint64_t> keys;
  keys.reserve(counts[range]);
  for (const Entry& entry : entries_) {
    if ((entry.key - low) >> shift == range) keys.push_back(entry.key);
  }
  const auto place = static_cast<std::ptrdiff_t>(k_ - above - 1);
  std::nth_element(keys.begin(), keys.begin() + place, keys.end(), std::greater<>());
  const std::uint64_t last = keys[static_cast<std::size_t>(place)];
  std::uint64_t ties = k_ - static_cast<std::uint64_t>(std::count_if(
                                entries_.begin(), entries_.end(),
                                [&](const Entry& entry) { return entry.key > last; }));
  std::erase_if(
      entries_,
      [&](const Entry& entry) {  // in order: the ties that stay are those with the lowest indices
        if (entry.key != last) return entry.key < last;
        return ties == 0 || ties-- == 0;
      });
  least_ = last == std::numeric_limits<std::uint64_t>::max() ? last : last + 1;
}

std::vector<std::uint64_t> LargestK::finish() {
  prune();
  std::vector<std::uint64_t> indices(entries_.size());
  std::transform(entries_.begin(), entries_.end(), indices.begin(),
                 [](const Entry& entry) { return entry.index; });
  return indices;
}

LargestK::Limit LargestK::limit() {
  prune();
  if (k_ == 0) return {std::numeric_limits<std::uint64_t>::max(), 0};
  if (entries_.size() < k_) return {};
  Limit limit{std::numeric_limits<std::uint64_t>::max(), 0};
  for (const Entry& entry : entries_) {
    if (entry.key < limit.key) limit = {entry.key, 0};
    if (entry.key == limit.key) limit.end = entry.index + 1;
  }
  return limit;
}

std::uint64_t magnitude_cap(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x7c01;
    case DataType::kBfloat16:
      return 0x7f81;
    case DataType::kFloat32:
      return 0x7f800001;
    case DataType::kFloat64:
      return 0x7ff0000000000001;
    case DataType::kFloat8e5m2:
      return 0x7d;
    default:  // float8 e4m3 has one NaN, above all other values
      return std::numeric_limits<std::uint64_t>::max();
  }
}

std::vector<std::uint64_t> top_k(const std::byte* array, std::uint64_t count, DataType type,
                                 std::uint64_t k, const kernels::KernelSet& kernels) {
  LargestK largest(std::min(k, count));
  if (k == 0 || count == 0) return {};
  const std::uint64_t least = guess_least(array, count, type, std::min(k, count), kernels);
  collect(array, count, type, least, kernels, largest);
  if (largest.size() < std::min(k, count) &&
      least > 1) {  // the sample misled: all over, without a guess
    largest.clear();
    collect(array, count, type, 1, kernels, largest);
  }
  return largest.finish();
}

}  // namespace sparcl::codec
