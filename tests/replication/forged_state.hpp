#pragma once
// Other weights with the same state hash: what anybody can make, as the hash is linear and its keys
// are public. The signs of 64 weights of the first block change, so that both sums stay as they
// are.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/word_hash.hpp"

namespace sparcl::replication {

// The top bits of some words of a block of bfloat16: what they are to be, so that all of them can
// change at once.
class Forgery {
 public:
  Forgery() {
    // A word whose top bit comes or goes moves each sum by its key times 2^31, so that 33 bits of
    // each key count. Pairs of words (or of such pairs) whose sums agree in 11 more bits are taken
    // off each other, until all 66 bits are zero.
    std::vector<Part> parts;
    for (std::size_t word = 0; word < kWords; ++word) {
      Part part{{}, {{word, true}}};
      for (std::size_t j = 0; j < 2; ++j) {
        part.sums[j] = (kernels::kHashKeys.words[word % kernels::kStripeWords][j] *
                        kernels::kHashKeys.stripes[word / kernels::kStripeWords][j]) &
                       kMask;
      }
      parts.push_back(std::move(part));
    }
    for (std::size_t level = 0; level < 6; ++level)
      parts = pairs_of(std::move(parts), level / 3, 11 * (level % 3));
    if (!parts.empty()) bits_ = parts.front().bits;
  }

  bool is_found() const { return !bits_.empty(); }
  std::size_t size() const { return bits_.size(); }
  // The weights as they are to be published. block: its first 131,072 bytes.
  void prepare(std::byte* block) const {
    for (const Bit& bit : bits_) {
      std::byte& top = block[4 * bit.word + 3];
      top = bit.rises ? top & std::byte{0x7f} : top | std::byte{0x80};
    }
  }
  // From one to the other.
  void apply(std::byte* block) const {
    for (const Bit& bit : bits_) block[4 * bit.word + 3] ^= std::byte{0x80};
  }

 private:
  static constexpr std::size_t kWords = 32768;
  static constexpr std::uint64_t kMask = (std::uint64_t{1} << 33) - 1;
  struct Bit {
    std::size_t word;
    bool rises;
  };
  struct Part {
    std::array<std::uint64_t, 2> sums;
    std::vector<Bit> bits;
  };

  static std::vector<Part> pairs_of(std::vector<Part> parts, std::size_t sum, std::size_t shift) {
    std::vector<Part> pairs;
    std::array<std::size_t, 2048> waiting;  // one more than its index, of each value of these bits
    waiting.fill(0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::size_t& other = waiting[(parts[i].sums[sum] >> shift) % waiting.size()];
      if (other == 0) {
        other = i + 1;
        continue;
      }
      Part pair = std::move(parts[other - 1]);
      for (std::size_t j = 0; j < 2; ++j) pair.sums[j] = (pair.sums[j] - parts[i].sums[j]) & kMask;
      for (const Bit& bit : parts[i].bits) pair.bits.push_back({bit.word, !bit.rises});
      pairs.push_back(std::move(pair));
      other = 0;
    }
    return pairs;
  }

  std::vector<Bit> bits_;
};

inline const Forgery& forgery() {
  static const Forgery made;
  return made;
}

}  // namespace sparcl::replication
