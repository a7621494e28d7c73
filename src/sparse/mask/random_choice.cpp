#include "src/sparse/mask/random_choice.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "kernels/kernel_set.hpp"
#include "src/sparse/mask/philox.hpp"

namespace sparcl::sparse {
namespace {

__extension__ using Wide = unsigned __int128;

// Indices of the streams of random words.
constexpr std::uint32_t kOffsetStream = 0;
constexpr std::uint32_t kFirstKeyStream = 1;

}  // namespace

StratumPermutation::StratumPermutation(std::uint32_t size, std::uint64_t seed, std::uint64_t step,
                                       std::uint64_t stratum)
    : size_(size) {
  const auto bits = std::max(2U, static_cast<unsigned>(std::bit_width(size - 1)));
  low_bits_ = bits / 2;
  low_mask_ = static_cast<std::uint16_t>((1U << low_bits_) - 1);
  high_mask_ = static_cast<std::uint16_t>((1U << (bits - low_bits_)) - 1);
  for (unsigned round = 0; round < kRounds; ++round) {
    const std::uint64_t word =
        philox_word(seed, step, stratum, kFirstKeyStream + round / 2) >> (round % 2 * 32);
    adders_[round] = static_cast<std::uint16_t>(word);
    factors_[round] = static_cast<std::uint16_t>(word >> 16 | 1);
  }
}

// Products modulo 2^16, whose high half depends on all input bits.
std::uint16_t StratumPermutation::shuffled(std::uint16_t i) const {
  auto low = static_cast<std::uint16_t>(i & low_mask_),
       high = static_cast<std::uint16_t>(i >> low_bits_);
  for (unsigned round = 0; round < kRounds; round += 2) {
    const auto from_high = static_cast<std::uint16_t>(
        static_cast<std::uint32_t>(high + adders_[round]) * factors_[round]);
    low = static_cast<std::uint16_t>(low ^ (from_high >> 8 & low_mask_));
    const auto from_low = static_cast<std::uint16_t>(
        static_cast<std::uint32_t>(low + adders_[round + 1]) * factors_[round + 1]);
    high = static_cast<std::uint16_t>(high ^ (from_low >> 8 & high_mask_));
  }
  return static_cast<std::uint16_t>(high << low_bits_ | low);
}

void StratumPermutation::apply(std::uint32_t first, std::uint32_t count,
                               std::uint16_t* images) const {
  for (std::uint32_t i = 0; i < count; ++i)
    images[i] = shuffled(static_cast<std::uint16_t>(first + i));  // by vectors
  if (size_ == kStratum) return;
  for (std::uint32_t i = 0; i < count; ++i) {
    while (images[i] >= size_) images[i] = shuffled(images[i]);
  }
}

RandomChoice::RandomChoice(std::uint64_t n, std::uint64_t k, std::uint64_t seed, std::uint64_t step)
    : n_(n), k_(k), seed_(seed), step_(step), images_(std::min(n, kStratum)) {
  const auto random = static_cast<Wide>(philox_word(seed, step, 0, kOffsetStream));
  offset_ = static_cast<std::uint64_t>(random * n >> 64);  // below n
}

std::uint64_t RandomChoice::chosen_before(std::uint64_t stratum) const {
  const std::uint64_t first = std::min(stratum * kStratum, n_);
  return n_ == 0 ? 0 : static_cast<std::uint64_t>((static_cast<Wide>(first) * k_ + offset_) / n_);
}

std::uint32_t RandomChoice::take(std::uint64_t stratum, std::uint16_t* places) {
  const auto size = static_cast<std::uint32_t>(std::min(kStratum, n_ - stratum * kStratum));
  const auto share =
      static_cast<std::uint32_t>(chosen_before(stratum + 1) - chosen_before(stratum));
  if (share == 0) return 0;
  const bool by_the_rest = share > size / 2;  // those beyond it are fewer
  const std::uint32_t first = by_the_rest ? share : 0, count = by_the_rest ? size - share : share;
  StratumPermutation(size, seed_, step_, stratum).apply(first, count, images_.data());
  for (std::uint32_t i = 0; i < count; ++i)
    bits_[images_[i] / 64] |= std::uint64_t{1} << (images_[i] % 64);
  const std::uint32_t words = (size + 63) / 64;
  if (by_the_rest) {
    for (std::uint32_t word = 0; word < words; ++word) bits_[word] = ~bits_[word];
  }
  kernels::cpu_kernels().lists.find_marks(reinterpret_cast<const std::byte*>(bits_.data()), 0, size,
                                          share, places);
  std::fill_n(bits_.begin(), words, 0);
  return share;
}

std::vector<std::uint64_t> choose(std::uint64_t n, std::uint64_t k, std::uint64_t seed,
                                  std::uint64_t step) {
  std::vector<std::uint64_t> chosen;
  chosen.reserve(k);
  RandomChoice choice(n, k, seed, step);
  std::vector<std::uint16_t> places(std::min(n, kStratum) + kernels::kPositionSlack);
  for (std::uint64_t stratum = 0; stratum < choice.strata(); ++stratum) {
    const std::uint32_t count = choice.take(stratum, places.data());
    for (std::uint32_t i = 0; i < count; ++i) chosen.push_back(stratum * kStratum + places[i]);
  }
  return chosen;
}

}  // namespace sparcl::sparse
