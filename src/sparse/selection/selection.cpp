#include "src/sparse/selection/selection.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <limits>

#include "src/base/float_environment.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::uint64_t kSamples =
    16384;  // heuristic: its guess takes 1.35 k at k = 1 %, and misses by 4 sigma in one of 30,000
constexpr std::uint64_t kSampleShare =
    256;  // heuristic: one in this many elements costs a third of the pass if all is in cache
constexpr std::uint64_t kMinSamples = 128;
constexpr std::size_t kBatch = 512;  // sampled elements gathered at once
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

std::uint64_t square_root(std::uint64_t value) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit /= 2)
    root += (root + bit) * (root + bit) <= value ? bit : 0;
  return root;
}

template <class T>
void gather(const std::byte* from, std::span<const std::uint64_t> places, std::byte* to) {
  for (std::size_t i = 0; i < places.size(); ++i)
    std::memcpy(to + i * sizeof(T), from + places[i] * sizeof(T), sizeof(T));
}

void gather(const std::byte* from, std::size_t width, std::span<const std::uint64_t> places,
            std::byte* to) {
  if (width == 1) gather<std::uint8_t>(from, places, to);
  if (width == 2) gather<std::uint16_t>(from, places, to);
  if (width == 4) gather<std::uint32_t>(from, places, to);
  if (width == 8) gather<std::uint64_t>(from, places, to);
}

}  // namespace

Selection::Selection(DataType type, const kernels::KernelSet& kernels)
    : type_(type), kernels_(kernels), candidates_(kernels::accumulator_type(type)) {}

Selection::Source Selection::source_of(DataType type, const std::byte* values,
                                       std::byte* residual) const {
  return {values,
          residual,
          type,
          element_bytes(type),
          element_bytes(kernels::accumulator_type(type)),
          &kernels_.accumulate_of(type)};
}

std::size_t Selection::Source::take(std::uint64_t first, std::size_t count, std::uint64_t least,
                                    std::uint16_t* positions, std::byte* taken) const {
  const std::byte* from = values + first * value_bytes;
  if (residual == nullptr) return kernels->take_large(from, count, 0, least, positions, taken);
  return kernels->accumulate(from, count, residual + first * accumulator_bytes, 0, least, positions,
                             taken);
}

void Selection::reserve(std::uint64_t count, std::uint64_t k) {
  k = std::min(k, count);
  candidates_.reserve(std::min(count, k + k / 2) + 4 * kBlock);
  sample_.reserve(std::min(kSamples, count / kSampleShare));
}

Selected Selection::select(const std::byte* values, std::byte* residual, std::uint64_t count,
                           std::uint64_t k, std::uint64_t hint) {
  const FloatEnvironment ieee;
  reserve(count, k);
  candidates_.shrink_to(0);
  Selected all{};
  select_part(source_of(type_, values, residual), 0, {count, k}, hint, all);
  return finish(all);
}

Selected Selection::select_parts(const std::byte* values, std::byte* residual,
                                 std::span<const Part> parts) {
  const FloatEnvironment ieee;
  std::uint64_t count = 0, k = 0;
  for (const Part& part : parts) {
    count += part.count;
    k += std::min(part.k, part.count);
  }
  reserve(count, k);
  candidates_.shrink_to(0);
  Selected all{};
  std::uint64_t first = 0;
  for (const Part& part : parts) {
    select_part(source_of(type_, values, residual), first, part, 0, all);
    first += part.count;
  }
  return finish(all);
}

Selected Selection::finish(Selected all) const {
  all.indices = candidates_.indices();
  all.accumulators = candidates_.accumulators();
  return all;
}

void Selection::select_part(const Source& source, std::uint64_t first, const Part& part,
                            std::uint64_t hint, Selected& all) {
  const std::uint64_t guess = hint != 0 ? below(hint) : guess_by_sample(source, first, part);
  if (pass(source, first, part, guess, all)) return;
  // The residual holds acc now: it is read alone, as elements of the accumulators' type.
  const Source acc = source.residual == nullptr
                         ? source
                         : source_of(kernels::accumulator_type(type_), source.residual, nullptr);
  if (hint != 0 && pass(acc, first, part, guess_by_sample(acc, first, part), all)) return;
  (void)pass(acc, first, part, 1, all);
}

// Takes the elements that reach the guess. False if they are fewer than k and the guess is more
// than 1, the smallest key.
bool Selection::pass(const Source& source, std::uint64_t first, const Part& part,
                     std::uint64_t guess, Selected& all) {
  const std::uint64_t k = std::min(part.k, part.count), begin = candidates_.size();
  std::uint64_t least = k == 0 ? kNone : guess, taken = 0;
  for (std::uint64_t at = 0; at < part.count; at += kBlock) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, part.count - at));
    if (candidates_.room() <
        size) {  // of what comes, that with the same key as the last would lose the tie
      const std::uint64_t last = candidates_.cut(begin, k);
      least = std::max(least, last == kNone ? last : last + 1);
    }
    const std::size_t found =
        source.take(first + at, size, least, positions_.data(), candidates_.tail());
    candidates_.add(first + at, positions_.data(), found);
    taken += found;
  }
  ++all.passes;
  if (candidates_.size() - begin < k && guess > 1) {
    candidates_.shrink_to(begin);
    return false;
  }
  const std::uint64_t last = candidates_.cut(begin, k);
  all.least = all.least == 0 || (last != 0 && last < all.least) ? last : all.least;
  all.taken += taken;
  return true;
}

// The least key of those above which about k elements of the part lie, on the safe side: too low
// costs a cut, too high a pass.
std::uint64_t Selection::guess_by_sample(const Source& source, std::uint64_t first,
                                         const Part& part) {
  const std::uint64_t samples = std::min(kSamples, part.count / kSampleShare);
  if (samples < kMinSamples || part.k == 0 || part.k >= part.count) return 1;
  const std::uint64_t expected = static_cast<std::uint64_t>(
      static_cast<double>(part.k) * static_cast<double>(samples) / static_cast<double>(part.count));
  const std::uint64_t rank = expected + 4 * (square_root(expected) + 1) + 4;
  std::array<std::byte, kBatch * 8> values, residual, taken;
  std::array<std::uint64_t, kBatch> places;
  sample_.clear();
  const std::uint64_t stride = part.count / samples;
  std::uint64_t random = 0x9e3779b97f4a7c15;
  for (std::uint64_t done = 0; done < samples;) {
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kBatch, samples - done));
    for (std::size_t i = 0; i < size;
         ++i, ++done) {  // one of each stratum: no pattern in the array is hit or missed as a whole
      random = random * 6364136223846793005 + 1442695040888963407;
      places[i] = first + done * stride + (random >> 33) % stride;
    }
    Source own = source;
    own.values = values.data();
    gather(source.values, source.value_bytes, {places.data(), size}, values.data());
    if (source.residual != nullptr) {
      own.residual = residual.data();
      gather(source.residual, source.accumulator_bytes, {places.data(), size}, residual.data());
    }
    const std::size_t found = own.take(0, size, 1, positions_.data(), taken.data());
    for (std::size_t i = 0; i < found; ++i)
      sample_.push_back(candidates_.key(taken.data() + i * source.accumulator_bytes));
  }
  if (rank >= sample_.size()) return 1;
  std::nth_element(sample_.begin(), sample_.begin() + static_cast<std::ptrdiff_t>(rank),
                   sample_.end(), std::greater<>());
  return sample_[rank];
}

// A key of a magnitude that is smaller by a 256th to a 128th: heuristic, for residuals crowd below
// the threshold.
std::uint64_t Selection::below(std::uint64_t key) const {
  const bool is_float = info(type_).is_float;
  const std::uint64_t step =
      !is_float
          ? key / 128
          : std::uint64_t{1} << (kernels::accumulator_type(type_) == DataType::kFloat64 ? 45 : 16);
  return key > step ? std::max<std::uint64_t>(key - step, 1) : 1;
}

double magnitude_of(DataType type, std::uint64_t key) {
  if (!info(type).is_float) return static_cast<double>(key);
  if (type == DataType::kFloat64) return std::bit_cast<double>(key);
  return std::bit_cast<float>(static_cast<std::uint32_t>(key));
}

double threshold_drift(DataType type, std::uint64_t before, std::uint64_t now) {
  return before == 0 || now == 0 ? 0 : magnitude_of(type, now) / magnitude_of(type, before);
}

}  // namespace sparcl::sparse
