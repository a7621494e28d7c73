// Part of cpu_kernels.cpp, compiled once for each instruction set but those with vectors of 512
// bits (change_hash_avx512.inl).

// Changed words that wait to be summed; a change of 8 bytes is two words.
constexpr std::size_t kGroupWords = 128;
struct ChangedWords {
  // Four words are read at a time, though vectors take fewer: past the last group, too.
  alignas(64) std::uint32_t olds[kGroupWords + 4];
  alignas(64) std::uint32_t news[kGroupWords + 4];
};

constexpr std::size_t kKeyPairs = HWY_LANES(std::uint64_t) / 2;  // in a vector: 1 or 2
using KeyTag = hn::FixedTag<std::uint64_t, 2 * kKeyPairs>;
using KeyVec = hn::VFromD<KeyTag>;

// The pairs that begin at keys[at(0)], keys[at(1)] ...
template <std::size_t kCount, std::size_t kFirst = 0, class At>
HWY_INLINE auto key_pairs(const std::uint64_t* keys, At at) {
  const hn::FixedTag<std::uint64_t, 2 * kCount> d;
  if constexpr (kCount == 1) {
    return hn::Load(d, keys + at(kFirst));
  } else {
    constexpr std::size_t kHalf = kCount / 2;
    return hn::Combine(d, key_pairs<kHalf, kFirst + kHalf>(keys, at),
                       key_pairs<kHalf, kFirst>(keys, at));
  }
}

// a * b modulo 2^64.
HWY_INLINE KeyVec multiply_keys(KeyVec a, KeyVec b) {
  const hn::Repartition<std::uint32_t, KeyTag> d32;
  const auto a32 = hn::BitCast(d32, a);
  const auto b32 = hn::BitCast(d32, b);
  const auto a_high = hn::BitCast(d32, hn::ShiftRight<32>(a));
  const auto b_high = hn::BitCast(d32, hn::ShiftRight<32>(b));
  const auto crossed = hn::Add(hn::MulEven(a_high, b32), hn::MulEven(a32, b_high));
  return hn::Add(hn::MulEven(a32, b32), hn::ShiftLeft<32>(crossed));
}

template <class T>
class ChangeSums {
 public:
  using D32 = hn::Repartition<std::uint32_t, KeyTag>;

  HWY_INLINE ChangeSums()
      : old_low_(hn::Zero(KeyTag())),
        old_high_(old_low_),
        new_low_(old_low_),
        new_high_(old_low_) {}

  // Adds in steps of kKeyPairs words. Words past the end are zeros and add nothing, for any
  // positions.
  HWY_INLINE void add(const std::uint16_t* positions, std::size_t word_count,
                      const ChangedWords& words) {
    for (std::size_t i = 0; i < word_count; i += kKeyPairs) {
      const KeyVec keys = multiply_keys(
          key_pairs<kKeyPairs>(kHashKeys.words[0].data(),
                               [=](std::size_t k) HWY_ATTR {
                                 return 2 * (word_of(positions, i + k) % kStripeWords);
                               }),
          key_pairs<kKeyPairs>(kHashKeys.stripes[0].data(), [=](std::size_t k) HWY_ATTR {
            return 2 * (word_of(positions, i + k) / kStripeWords);
          }));
      const auto low = hn::BitCast(D32(), keys);
      const auto high = hn::BitCast(D32(), hn::ShiftRight<32>(keys));
      const auto olds = twice(words.olds + i);
      const auto news = twice(words.news + i);
      old_low_ = hn::Add(old_low_, hn::MulEven(olds, low));
      old_high_ = hn::Add(old_high_, hn::MulEven(olds, high));
      new_low_ = hn::Add(new_low_, hn::MulEven(news, low));
      new_high_ = hn::Add(new_high_, hn::MulEven(news, high));
    }
  }

  HWY_INLINE ChangeHashes sums() const {
    return {total(old_low_, old_high_), total(new_low_, new_high_)};
  }

 private:
  // Where the i-th changed word lies in its block.
  static HWY_INLINE std::size_t word_of(const std::uint16_t* positions, std::size_t i) {
    if constexpr (sizeof(T) == 8) return 2 * std::size_t{positions[i / 2]} + i % 2;
    return std::size_t{positions[i]} * sizeof(T) / 4;
  }

  // Each word in the even lanes of both of its sums; the odd lanes are never looked at.
  static HWY_INLINE hn::VFromD<D32> twice(const std::uint32_t* words) {
    const D32 d;
    alignas(64) static constexpr std::uint32_t kLanes[16] = {0, 0, 0, 0, 1, 1, 1, 1,
                                                             2, 2, 2, 2, 3, 3, 3, 3};
    return hn::TableLookupLanes(hn::LoadDup128(d, words), hn::SetTableIndices(d, kLanes));
  }

  static HWY_INLINE Hash128 total(KeyVec low, KeyVec high) {
    alignas(64) std::uint64_t lanes[2 * kKeyPairs];
    hn::Store(hn::Add(low, hn::ShiftLeft<32>(high)), KeyTag(), lanes);
    Hash128 sum;
    for (std::size_t i = 0; i < kKeyPairs; ++i) {
      sum.low += lanes[2 * i];
      sum.high += lanes[2 * i + 1];
    }
    return sum;
  }

  KeyVec old_low_, old_high_, new_low_, new_high_;
};

// Values as the words that they are part of. Elements of 4 and 8 bytes are words already.
template <class T>
HWY_INLINE void make_words(const std::uint16_t* positions, std::size_t count, const T* olds,
                           const T* news, ChangedWords& words) {
  if constexpr (sizeof(T) >= 4) {
    std::memcpy(words.olds, olds, count * sizeof(T));
    std::memcpy(words.news, news, count * sizeof(T));
  } else {
    constexpr int kBits = 8 * sizeof(T);
    const hn::ScalableTag<std::uint32_t> d;
    const hn::Rebind<std::uint16_t, decltype(d)> d16;
    const hn::Rebind<T, decltype(d)> dt;
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
      const auto place =
          hn::And(hn::PromoteTo(d, hn::LoadU(d16, positions + i)), hn::Set(d, 32 / kBits - 1));
      const auto shift = hn::ShiftLeft < sizeof(T) == 1 ? 3 : 4 > (place);
      hn::Store(hn::Shl(hn::PromoteTo(d, hn::LoadU(dt, olds + i)), shift), d, words.olds + i);
      hn::Store(hn::Shl(hn::PromoteTo(d, hn::LoadU(dt, news + i)), shift), d, words.news + i);
    }
  }
}

template <class T>
ChangeHashes hash_changes(const std::uint16_t* positions, std::size_t count,
                          const std::byte* old_values, const std::byte* new_values) {
  constexpr std::size_t kWordsEach = sizeof(T) == 8 ? 2 : 1;
  constexpr std::size_t kGroup = kGroupWords / kWordsEach;
  const T* olds = reinterpret_cast<const T*>(old_values);
  const T* news = reinterpret_cast<const T*>(new_values);
  ChangedWords words;
  ChangeSums<T> sums;
  std::size_t i = 0;
  for (; i + kGroup <= count; i += kGroup) {
    make_words(positions + i, kGroup, olds + i, news + i, words);
    sums.add(positions + i, kGroupWords, words);
  }
  if (i < count) {  // copied, as nothing may be read past the end
    alignas(64) std::uint16_t last[kGroup] = {};
    alignas(64) T last_olds[kGroup] = {};
    alignas(64) T last_news[kGroup] = {};
    std::memcpy(last, positions + i, (count - i) * sizeof *last);
    std::memcpy(last_olds, olds + i, (count - i) * sizeof(T));
    std::memcpy(last_news, news + i, (count - i) * sizeof(T));
    make_words(last, kGroup, last_olds, last_news, words);
    sums.add(last, (count - i) * kWordsEach, words);
  }
  return sums.sums();
}
