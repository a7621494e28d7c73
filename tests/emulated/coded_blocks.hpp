#pragma once
// Arrays to code, and what the codec's encoder makes of their blocks: for the kernels that code
// them, emulated or on a GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/cuda/device_work.hpp"
#include "src/codec/block_mode.hpp"

namespace sparcl::test {

using kernels::cuda::BlockContent;
using kernels::cuda::DeviceChangeHashes;
using kernels::cuda::DeviceChanges;
using kernels::cuda::kBlockElements;

template <DataType kType, class WordType>
struct TypeOfElement {
  static constexpr DataType kDataType = kType;
  using Word = WordType;
};
using ElementTypes = testing::Types<TypeOfElement<DataType::kUint8, std::uint8_t>,
                                    TypeOfElement<DataType::kFloat8e4m3, std::uint8_t>,
                                    TypeOfElement<DataType::kInt16, std::uint16_t>,
                                    TypeOfElement<DataType::kBfloat16, std::uint16_t>,
                                    TypeOfElement<DataType::kUint32, std::uint32_t>,
                                    TypeOfElement<DataType::kFloat32, std::uint32_t>,
                                    TypeOfElement<DataType::kInt64, std::uint64_t>,
                                    TypeOfElement<DataType::kFloat64, std::uint64_t>>;

// How the new values come of the old ones.
enum class Change : std::uint8_t { kMostlyOne, kOneOnly, kSmall, kAny };

// ord (kernels/step.hpp), and back.
template <class Word>
Word turned(Word bits, bool is_float) {
  constexpr Word kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  if (!is_float) return bits;
  return static_cast<Word>((bits & kSign) != 0 ? ~bits : bits | kSign);
}
template <class Word>
Word turned_back(Word order, bool is_float) {
  constexpr Word kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  if (!is_float) return order;
  return static_cast<Word>((order & kSign) != 0 ? order & static_cast<Word>(~kSign) : ~order);
}

template <class Word>
Word changed(Word value, Change kind, bool is_float, std::mt19937_64& random) {
  std::uint64_t size = 1;
  if (kind == Change::kSmall) size = 1 + random() % 30;
  if (kind == Change::kMostlyOne && random() % 10 == 0) size = 2 + random() % 5;
  if (kind == Change::kMostlyOne && random() % 500 == 0) size = random() | 1;
  if (kind == Change::kAny) size = random();
  const Word step = static_cast<Word>(random() % 2 == 0 ? size : 0 - size);
  const Word other = turned_back(static_cast<Word>(turned(value, is_float) + step), is_float);
  return other == value ? static_cast<Word>(value ^ 1) : other;
}

struct Density {
  std::uint32_t permille;
  Change kind = Change::kMostlyOne;
};

// An array and the one before it; block b changes as densities[b] says, or element i as changes(i).
template <class Word>
struct TwoArrays {
  std::vector<Word> base, target;

  TwoArrays(std::size_t count, std::span<const Density> densities, bool is_float,
            std::uint64_t seed)
      : base(count) {
    std::mt19937_64 random(seed);
    for (Word& element : base) element = static_cast<Word>(random());
    target = base;
    for (std::size_t i = 0; i < count; ++i) {
      const Density& density = densities[i / kBlockElements % densities.size()];
      if (random() % 1000 < density.permille)
        target[i] = changed(base[i], density.kind, is_float, random);
    }
  }
  template <class Changes>
  TwoArrays(std::size_t count, Change kind, bool is_float, std::uint64_t seed,
            const Changes& changes)
      : base(count) {
    std::mt19937_64 random(seed);
    for (Word& element : base) element = static_cast<Word>(random());
    target = base;
    for (std::size_t i = 0; i < count; ++i) {
      if (changes(i)) target[i] = changed(base[i], kind, is_float, random);
    }
  }
};

// What diff leaves.
template <class Word>
struct ListedChanges {
  std::vector<std::uint16_t> positions;
  std::vector<Word> old_values, new_values;
  std::vector<std::uint64_t> starts;

  explicit ListedChanges(const TwoArrays<Word>& arrays) {
    for (std::size_t i = 0; i < arrays.base.size(); ++i) {
      if (i % kBlockElements == 0) starts.push_back(positions.size());
      if (arrays.base[i] == arrays.target[i]) continue;
      positions.push_back(static_cast<std::uint16_t>(i % kBlockElements));
      old_values.push_back(arrays.base[i]);
      new_values.push_back(arrays.target[i]);
    }
    starts.push_back(positions.size());
  }
  DeviceChanges device() {
    return {positions.data(), old_values.data(), new_values.data(), starts.data()};
  }
};

// A block's changes as the codec's encoder sees them.
class CodecBlock {
 public:
  CodecBlock(DataType type, const std::byte* base, const std::byte* target, std::uint32_t elements)
      : piece_{0, 0, elements, 0}, target_(target) {
    changes_.kernels = &kernels::cpu_kernels();
    changes_.target = {{type, elements}, {&piece_, 1}, {&target_, 1}};
    changes_.bytes_to_beat = codec::kCannot;
    changes_.has_steps = true;
    changes_.make_room();
    changes_.set_changes(kernels::cpu_kernels().of(type).diff_values(
        base, target, elements, 0, changes_.positions.data(), changes_.old_values.data(),
        changes_.new_values.data()));
  }
  CodecBlock(const CodecBlock&) = delete;
  CodecBlock& operator=(const CodecBlock&) = delete;

  std::size_t count() const { return changes_.count; }
  std::vector<std::byte> content(const codec::BlockMode& mode) {
    std::vector<std::byte> bytes(mode.cost(changes_));
    mode.encode(changes_, bytes.data());
    return bytes;
  }
  // That which a sender takes of those that devices write.
  const codec::BlockMode& best() {
    changes_.for_devices = true;
    return *codec::choose_mode(changes_).mode;
  }
  // Two levels are asked for though they will not pay.
  void force() {
    changes_.forced = true;
    changes_.set_changes(changes_.count);
  }
  // Of the values that digests count in this mode: of what changes, or of all.
  kernels::ChangeHashes hashes(const codec::BlockMode& mode, const std::byte* base) const {
    const kernels::KernelSet& reference = kernels::reference_kernels();
    const codec::BlockShape shape = changes_.shape();
    if (mode.whole)
      return {reference.hash_words(base, shape.bytes()),
              reference.hash_words(target_, shape.bytes())};
    return reference.of(shape.datatype)
        .hash_changes(changes_.positions.data(), changes_.count, changes_.old_values.data(),
                      changes_.new_values.data());
  }

 private:
  codec::Piece piece_;
  const std::byte* target_;
  codec::BlockChanges changes_;
};

inline bool are_same(const DeviceChangeHashes& found, const kernels::ChangeHashes& wanted) {
  return found.old_low == wanted.old_values.low && found.old_high == wanted.old_values.high &&
         found.new_low == wanted.new_values.low && found.new_high == wanted.new_values.high;
}

}  // namespace sparcl::test
