// Part of cpu_kernels.cpp, compiled for instruction sets with vectors of 512 bits: the state hash
// of changes.

using KeyPair = std::array<std::uint64_t, 2>;
constexpr std::size_t kGroupWords = 128;
constexpr std::size_t kRowWords = 32;
constexpr std::size_t kNearStripes = 8;  // their keys fill two vectors

// Changed words, a change of 8 bytes is two; zeros from the last one to the end of its row. And at
// how many bytes in their tables the keys of each are. All of it is stored well before it is
// wanted: g++ 12 would take vectors apart in registers otherwise.
struct ChangedWords {
  alignas(64) std::uint32_t olds[kGroupWords];
  alignas(64) std::uint32_t news[kGroupWords];
  alignas(64) std::uint16_t word_keys[kGroupWords];
  alignas(64) std::uint16_t stripe_keys[kGroupWords];
  alignas(64) std::uint8_t near_lanes[2 * kGroupWords];  // see NearStripes
};

HWY_INLINE __mmask32 first_lanes(std::size_t count) {
  return count >= 32 ? ~__mmask32{0} : (__mmask32{1} << count) - 1;
}

HWY_INLINE __m512i low_words(__m512i of_16_bits) {
  return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(of_16_bits));
}
HWY_INLINE __m512i high_words(__m512i of_16_bits) {
  return _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(of_16_bits, 1));
}

// Values of 1 or 2 bytes, `count` of a row, as the words that contain them.
template <class T>
HWY_INLINE void store_words(const T* values, std::size_t count, __m512i positions,
                            std::uint32_t* words) {
  constexpr int kInWord = 4 / sizeof(T) - 1;
  const __m512i bits = _mm512_slli_epi16(_mm512_and_si512(positions, _mm512_set1_epi16(kInWord)),
                                         sizeof(T) == 1 ? 3 : 4);
  __m512i loaded;
  if constexpr (sizeof(T) == 1) {
    loaded = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(first_lanes(count), values));
  } else {
    loaded = _mm512_maskz_loadu_epi16(first_lanes(count), values);
  }
  _mm512_store_si512(words, _mm512_sllv_epi32(low_words(loaded), low_words(bits)));
  _mm512_store_si512(words + 16, _mm512_sllv_epi32(high_words(loaded), high_words(bits)));
}

// The start of the keys that two vectors hold: the keys of the stripes of a row's first words.
HWY_INLINE std::size_t near_begin(std::size_t first_stripe_key) {
  constexpr std::size_t kLast = (kMaxStripes - kNearStripes) * sizeof(KeyPair);
  return first_stripe_key < kLast ? first_stripe_key : kLast;
}

// Up to a row of changes: 32, or 16 of 8 bytes.
template <class T>
HWY_INLINE void store_row(const std::uint16_t* positions, std::size_t count, const T* olds,
                          const T* news, ChangedWords& words, std::size_t first) {
  constexpr int kStripeShift = std::countr_zero(kStripeBytes / sizeof(T));
  constexpr int kPairShift = std::countr_zero(sizeof(KeyPair));
  constexpr int kInStripe = static_cast<int>((kStripeWords - 1) << kPairShift);
  const __m512i places = _mm512_maskz_loadu_epi16(first_lanes(count), positions);
  __m512i word_keys;
  __m512i stripe_keys;
  if constexpr (sizeof(T) == 8) {  // two words, side by side
    const __m512i wide = low_words(places);
    const __m512i keys =
        _mm512_and_si512(_mm512_slli_epi32(wide, kPairShift + 1), _mm512_set1_epi32(kInStripe));
    const __m512i stripes = _mm512_slli_epi32(_mm512_srli_epi32(wide, kStripeShift), kPairShift);
    word_keys = _mm512_or_si512(
        keys, _mm512_slli_epi32(_mm512_add_epi32(keys, _mm512_set1_epi32(sizeof(KeyPair))), 16));
    stripe_keys = _mm512_or_si512(stripes, _mm512_slli_epi32(stripes, 16));
  } else {
    constexpr int kWordShift = kPairShift - std::countr_zero(4 / sizeof(T));
    word_keys =
        _mm512_and_si512(_mm512_slli_epi16(places, kWordShift), _mm512_set1_epi16(kInStripe));
    stripe_keys = _mm512_slli_epi16(_mm512_srli_epi16(places, kStripeShift), kPairShift);
  }
  _mm512_store_si512(words.word_keys + first, word_keys);
  _mm512_store_si512(words.stripe_keys + first, stripe_keys);
  const std::size_t begin = near_begin((positions[0] >> kStripeShift) * sizeof(KeyPair));
  const __m512i lane = _mm512_srli_epi16(
      _mm512_sub_epi16(stripe_keys, _mm512_set1_epi16(static_cast<short>(begin))), 3);
  const __m512i next_lane = _mm512_add_epi16(lane, _mm512_set1_epi16(1));
  _mm512_store_si512(words.near_lanes + 2 * first,
                     _mm512_or_si512(lane, _mm512_slli_epi16(next_lane, 8)));
  if constexpr (sizeof(T) <= 2) {
    store_words(olds, count, places, words.olds + first);
    store_words(news, count, places, words.news + first);
  } else {
    const __mmask32 there = first_lanes(count * (sizeof(T) / 4));
    for (std::size_t i = 0; i < kRowWords; i += 16) {
      const auto part = static_cast<__mmask16>(there >> i);
      _mm512_store_si512(words.olds + first + i,
                         _mm512_maskz_loadu_epi32(part, olds + i / (sizeof(T) / 4)));
      _mm512_store_si512(words.news + first + i,
                         _mm512_maskz_loadu_epi32(part, news + i / (sizeof(T) / 4)));
    }
  }
}

HWY_INLINE const KeyPair* pair_at(const KeyPair* keys, std::size_t bytes) {
  return reinterpret_cast<const KeyPair*>(reinterpret_cast<const std::byte*>(keys) + bytes);
}

HWY_INLINE __m512i load_pairs(const KeyPair* keys, const std::uint16_t* bytes) {
  const auto load = [=](std::size_t i) HWY_ATTR {
    return _mm_load_si128(reinterpret_cast<const __m128i*>(pair_at(keys, bytes[i])));
  };
  __m512i pairs = _mm512_castsi128_si512(load(0));  // then loads that write a part: no shuffles
  pairs = _mm512_mask_broadcast_i64x2(pairs, 0x0c, load(1));
  pairs = _mm512_mask_broadcast_i64x2(pairs, 0x30, load(2));
  return _mm512_mask_broadcast_i64x2(pairs, 0xc0, load(3));
}

// The keys of the stripes of any words.
struct FarStripes {
  const std::uint16_t* stripe_keys;
  HWY_INLINE __m512i pairs(std::size_t word) const {
    return load_pairs(kHashKeys.stripes.data(), stripe_keys + word);
  }
};

// The same if the stripes of a row are near to each other, which is the usual case: keys come from
// registers.
struct NearStripes {
  __m512i low;
  __m512i high;
  const std::uint8_t* lanes;  // of each word's two keys in `low` and `high`

  static HWY_INLINE bool fit(const std::uint16_t* stripe_keys, std::size_t count) {
    return stripe_keys[count - 1] - std::size_t{stripe_keys[0]} < kNearStripes * sizeof(KeyPair);
  }

  HWY_INLINE NearStripes(std::size_t first_stripe_key, const std::uint8_t* near_lanes)
      : lanes(near_lanes) {
    const KeyPair* keys = pair_at(kHashKeys.stripes.data(), near_begin(first_stripe_key));
    low = _mm512_loadu_si512(keys);
    high = _mm512_loadu_si512(keys + kNearStripes / 2);
  }

  HWY_INLINE __m512i pairs(std::size_t word) const {
    const __m512i at =
        _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes + 2 * word)));
    return _mm512_permutex2var_epi64(low, at, high);
  }
};

class ChangeSums {
 public:
  HWY_INLINE ChangeSums() : olds_(_mm512_setzero_si512()), news_(olds_) {}

  HWY_INLINE void add(const ChangedWords& words, std::size_t count) {
    for (std::size_t first = 0; first < count; first += kRowWords) {
      const std::uint16_t* stripe_keys = words.stripe_keys + first;
      const std::size_t in_row = count - first < kRowWords ? count - first : kRowWords;
      if (NearStripes::fit(stripe_keys, in_row)) {
        add_row(words, first, in_row, NearStripes(*stripe_keys, words.near_lanes + 2 * first));
      } else {
        add_row(words, first, in_row, FarStripes{stripe_keys});
      }
    }
  }

  HWY_INLINE ChangeHashes sums() const { return {total(olds_), total(news_)}; }

 private:
  template <class Stripes>
  HWY_INLINE void add_row(const ChangedWords& words, std::size_t first, std::size_t count,
                          const Stripes& stripes) {
    for (std::size_t i = 0; i < count; i += 4) {
      const __m512i word_keys = load_pairs(kHashKeys.words.data(), words.word_keys + first + i);
      const __m512i keys = _mm512_mullo_epi64(word_keys, stripes.pairs(i));
      olds_ = _mm512_add_epi64(olds_, _mm512_mullo_epi64(twice(words.olds + first + i), keys));
      news_ = _mm512_add_epi64(news_, _mm512_mullo_epi64(twice(words.news + first + i), keys));
    }
  }

  // Four words, each as two numbers of 64 bits, for both sums.
  static HWY_INLINE __m512i twice(const std::uint32_t* words) {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m128i four = _mm_load_si128(reinterpret_cast<const __m128i*>(words));
    return _mm512_maskz_permutexvar_epi32(0x5555, lanes, _mm512_castsi128_si512(four));
  }

  static HWY_INLINE Hash128 total(__m512i sums) {
    alignas(64) std::uint64_t lanes[8];
    _mm512_store_si512(lanes, sums);
    return {lanes[0] + lanes[2] + lanes[4] + lanes[6], lanes[1] + lanes[3] + lanes[5] + lanes[7]};
  }

  __m512i olds_;
  __m512i news_;
};

template <class T>
ChangeHashes hash_changes(const std::uint16_t* positions, std::size_t count,
                          const std::byte* old_values, const std::byte* new_values) {
  constexpr std::size_t kWordsEach = sizeof(T) == 8 ? 2 : 1;
  constexpr std::size_t kRow = kRowWords / kWordsEach;
  constexpr std::size_t kGroup = kGroupWords / kWordsEach;
  const T* olds = reinterpret_cast<const T*>(old_values);
  const T* news = reinterpret_cast<const T*>(new_values);
  ChangedWords words;
  ChangeSums sums;
  for (std::size_t i = 0; i < count; i += kGroup) {
    const std::size_t in_group = count - i < kGroup ? count - i : kGroup;
    for (std::size_t k = 0; k < in_group; k += kRow) {
      store_row(positions + i + k, in_group - k, olds + i + k, news + i + k, words, k * kWordsEach);
    }
    sums.add(words, in_group * kWordsEach);
  }
  return sums.sums();
}
