// Part of cpu_kernels.cpp, compiled for instruction sets without VBMI2: rows of 64 elements are
// sorted into classes as mask bits.

HWY_INLINE std::int8_t byte_step(std::uint16_t old_value, std::uint16_t new_value) {
  const auto near_ord = [](std::uint16_t value) {
    return value ^ ((value & 0x8000) != 0 ? 0x7fff : 0);
  };
  const int step = static_cast<std::int16_t>(near_ord(new_value) - near_ord(old_value));
  return static_cast<std::int8_t>(step < -128 ? -128 : step > 127 ? 127 : step);
}

// kCount classes, the elements of each in a row of 64 as bits, and their places among the bytes.
// Without loops over classes: what a constant numbers can stay in registers.
template <unsigned kCount, class Byte>
class MaskCursors {
 public:
  MaskCursors(const ClassCut& cut, const ClassRanks& ranks, Byte* steps) {
    for (unsigned c = 0, end = 256; c < kCount; ++c) {
      lowest_[c] = cut.lowest[c];  // past the cut's count 0, too: never reached
      next_[c] = steps + c * kClassStride + ranks[c];
      if (c < cut.count) std::memset(class_of_ + lowest_[c], static_cast<int>(c), end - lowest_[c]);
      if (c < cut.count) end = lowest_[c];
    }
  }

  void store_ranks(const Byte* steps, ClassRanks& ranks) const {
    for (unsigned c = 0; c < kCount; ++c)
      ranks[c] = static_cast<std::uint32_t>(next_[c] - (steps + c * kClassStride));
  }

  // Sorts a row of `count` <= 64 elements. kFind: returns which of them have a byte that is not
  // zero.
  template <bool kFind>
  HWY_INLINE std::uint64_t sort(const std::byte* at, std::size_t count) {
    if (count < kChunk) {
      std::memset(tail_, 0, sizeof tail_);
      std::memcpy(tail_, at, 2 * count);
      at = reinterpret_cast<const std::byte*>(tail_);
    }
    // Whole vectors of keys: partial stores are not forwarded to a wider load.
    const hn::ScalableTag<std::uint16_t> d16;
    const hn::ScalableTag<std::uint8_t> d8;
    const auto* values = reinterpret_cast<const std::uint16_t*>(at);
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d8)) {
      const auto low = hn::LoadU(d16, values + lane);
      const auto high = hn::LoadU(d16, values + lane + hn::Lanes(d16));
      hn::Store(hn::ConcatOdd(d8, hn::BitCast(d8, hn::Add(high, high)),
                              hn::BitCast(d8, hn::Add(low, low))),
                d8, keys_ + lane);
    }
    return sort_classes<kFind>(low_bits(~std::uint64_t{0}, count));
  }

  // The byte of an element of that row.
  HWY_INLINE Byte& byte_of(unsigned element) const {
    const unsigned c = class_of_[keys_[element]];
    return begun_[c][std::popcount(own_[c] & ((std::uint64_t{1} << element) - 1))];
  }

 private:
  // `left`: the elements of this class and those after it.
  template <bool kFind, unsigned kClass = 0>
  HWY_INLINE std::uint64_t sort_classes(std::uint64_t left) {
    const std::uint64_t own = kClass + 1 == kCount ? left : left & reached(lowest_[kClass]);
    std::uint64_t found = 0;
    if constexpr (kFind) found = deposit_bits(nonzero_chunk(next_[kClass]), own);
    own_[kClass] = own;
    begun_[kClass] = next_[kClass];
    next_[kClass] += std::popcount(own);
    if constexpr (kClass + 1 < kCount) found |= sort_classes<kFind, kClass + 1>(left & ~own);
    return found;
  }

  HWY_INLINE std::uint64_t reached(std::uint8_t lowest) const {
    const hn::ScalableTag<std::uint8_t> d;
    const auto least = hn::Set(d, lowest);
    std::uint64_t bits = 0;
    for (std::size_t lane = 0; lane < kChunk; lane += hn::Lanes(d)) {
      const auto keys = hn::Load(d, keys_ + lane);
      bits |= bits_of(d, hn::Eq(hn::Max(keys, least), keys)) << lane;
    }
    return bits;
  }

  std::uint8_t lowest_[kCount];
  Byte* next_[kCount];
  Byte* begun_[kCount];
  std::uint64_t own_[kCount];
  alignas(64) std::uint8_t keys_[kChunk];
  std::uint16_t tail_[kChunk];
  std::uint8_t class_of_[256];
};

template <unsigned kCount>
std::size_t diff_in_classes(const std::byte* base, const std::byte* target, std::size_t count,
                            std::uint32_t first, const ClassCut& cut, ClassRanks& ranks,
                            std::int8_t* steps, const ClassOutput& out) {
  MaskCursors<kCount, std::int8_t> classes(cut, ranks, steps);
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::byte* a = base + 2 * i;
    const std::byte* b = target + 2 * i;
    const std::size_t row = count - i < kChunk ? count - i : kChunk;
    prefetch_row(a);
    prefetch_row(b);
    std::uint64_t bits = 0;
    if (row == kChunk) {
      bits = differing(reinterpret_cast<const std::uint16_t*>(a),
                       reinterpret_cast<const std::uint16_t*>(b));
    } else {
      for (std::size_t j = 0; j < row; ++j)
        bits |= std::uint64_t{std::memcmp(a + 2 * j, b + 2 * j, 2) != 0} << j;
    }
    classes.template sort<false>(a, row);
    for (; bits != 0; bits &= bits - 1, ++found) {
      const auto element = static_cast<unsigned>(std::countr_zero(bits));
      const auto old_value = load_one<std::uint16_t>(a + 2 * element);
      const auto new_value = load_one<std::uint16_t>(b + 2 * element);
      classes.byte_of(element) = byte_step(old_value, new_value);
      std::memcpy(out.old_values + 2 * found, &old_value, 2);
      std::memcpy(out.new_values + 2 * found, &new_value, 2);
      out.positions[found] = static_cast<std::uint16_t>(first + i + element);
    }
  }
  classes.store_ranks(steps, ranks);
  return found;
}

template <unsigned kCount>
std::size_t find_in_classes(const std::byte* held, std::size_t count, std::uint32_t first,
                            const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                            std::uint16_t* positions, std::int8_t* found_steps) {
  MaskCursors<kCount, const std::int8_t> classes(cut, ranks, steps);
  LikelyBits likely;
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += kChunk) {
    prefetch_row(held + 2 * i);
    const std::uint64_t bits =
        classes.template sort<true>(held + 2 * i, count - i < kChunk ? count - i : kChunk);
    found += likely.visit(bits, [&](unsigned element, unsigned j) HWY_ATTR {
      found_steps[found + j] = classes.byte_of(element);
      positions[found + j] = static_cast<std::uint16_t>(first + i + element);
    });
  }
  classes.store_ranks(steps, ranks);
  return found;
}

template <unsigned kCount>
AddedSteps add_in_classes(std::byte* held, std::size_t count, std::uint32_t first,
                          const ClassCut& cut, ClassRanks& ranks, const std::int8_t* steps,
                          std::uint16_t* far_places) {
  constexpr std::size_t kPart =
      4096;  // is found before it is added to: it stays in the nearest cache
  std::uint16_t positions[kPart + kPositionSlack];
  std::int8_t found_steps[kPart + kPositionSlack];
  AddedSteps added;
  for (std::size_t i = 0; i < count; i += kPart) {
    const std::size_t own = count - i < kPart ? count - i : kPart;
    const std::size_t found =
        find_in_classes<kCount>(held + 2 * i, own, 0, cut, ranks, steps, positions, found_steps);
    added.found += found;
    for (std::size_t j = 0; j < found; ++j) {
      const int step = found_steps[j];
      if (step >= kFarStep || step <= -kFarStep) [[unlikely]] {
        far_places[added.far++] = static_cast<std::uint16_t>(first + i + positions[j]);
        continue;
      }
      std::byte* at = held + 2 * (i + positions[j]);
      const auto value = add_step<std::uint16_t, true>(load_one<std::uint16_t>(at),
                                                       static_cast<std::uint16_t>(step));
      std::memcpy(at, &value, sizeof value);
    }
  }
  return added;
}
