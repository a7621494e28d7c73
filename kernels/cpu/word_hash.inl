// Part of cpu_kernels.cpp, compiled once for each instruction set.

// A second copy of the keys, for the pass over all words: each half in an array of its own, in the
// order of the words.
struct KeyHalves {
  std::uint32_t low[2][kStripeWords];
  std::uint32_t high[2][kStripeWords];
  std::uint32_t unused[16];  // never read, but g++ 12 cannot see that and warns
};

constexpr KeyHalves make_key_halves() {
  KeyHalves halves{};
  for (std::size_t w = 0; w < kStripeWords; ++w) {
    for (std::size_t j = 0; j < 2; ++j) {
      halves.low[j][w] = static_cast<std::uint32_t>(kHashKeys.words[w][j]);
      halves.high[j][w] = static_cast<std::uint32_t>(kHashKeys.words[w][j] >> 32);
    }
  }
  return halves;
}

alignas(64) constexpr KeyHalves kKeyHalves = make_key_halves();

// word * key = word * low + (word * high << 32); the second product needs only its low 32 bits.
// Even and odd words alternate, because a product of 32-bit numbers is two lanes wide.
class WordSums {
 public:
  using D = hn::ScalableTag<std::uint32_t>;
  using V = hn::VFromD<D>;
  using D64 = hn::Repartition<std::uint64_t, D>;
  using V64 = hn::VFromD<D64>;

  HWY_INLINE WordSums()
      : low0_(hn::Zero(D64())), low1_(low0_), high0_(hn::Zero(D())), high1_(high0_) {}

  HWY_INLINE void add(V words, std::size_t first) {
    const V odd = odd_lanes(words);
    add_to(words, odd, 0, first, low0_, high0_);
    add_to(words, odd, 1, first, low1_, high1_);
  }

  HWY_INLINE Hash128 sums() const { return {total(low0_, high0_), total(low1_, high1_)}; }

 private:
  static HWY_INLINE V odd_lanes(V v) {
    return hn::BitCast(D(), hn::ShiftRight<32>(hn::BitCast(D64(), v)));
  }

  static HWY_INLINE void add_to(V words, V odd, std::size_t j, std::size_t first, V64& low,
                                V& high) {
    const V key_low = hn::Load(D(), kKeyHalves.low[j] + first);
    low = hn::Add(low, hn::MulEven(words, key_low));
    low = hn::Add(low, hn::MulEven(odd, odd_lanes(key_low)));
    high = hn::Add(high, hn::Mul(words, hn::Load(D(), kKeyHalves.high[j] + first)));
  }

  static HWY_INLINE std::uint64_t total(V64 low, V high) {
    const V64 pairs = hn::BitCast(
        D64(), hn::Add(high, odd_lanes(high)));  // the high halves of these lanes fall away
    const V64 sums = hn::Add(low, hn::ShiftLeft<32>(pairs));
    // The halves first: g++'s sum of 512 bits ends with an addition of signed numbers, which
    // sanitizers rightly refuse.
    const hn::Half<D64> half;
    return hn::GetLane(
        hn::SumOfLanes(half, hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums))));
  }

  V64 low0_, low1_;
  V high0_, high1_;
};

HWY_INLINE void add_stripe(Hash128& sum, const WordSums& stripe, std::size_t index) {
  const Hash128 sums = stripe.sums();
  sum.low += sums.low * kHashKeys.stripes[index][0];
  sum.high += sums.high * kHashKeys.stripes[index][1];
}

// Two whole stripes at once, and prefetches of the next two: two streams from memory reach 30 GB/s,
// one reaches 22.
HWY_INLINE void add_stripe_pair(Hash128& sum, const std::byte* bytes, std::size_t index) {
  const WordSums::D d;
  const auto* words = reinterpret_cast<const std::uint32_t*>(bytes);
  WordSums first;
  WordSums second;
  for (std::size_t i = 0; i < kStripeWords; i += hn::Lanes(d)) {
    if (i % 16 == 0) {
      __builtin_prefetch(bytes + 4 * i + 2 * kStripeBytes);
      __builtin_prefetch(bytes + 4 * i + 3 * kStripeBytes);
    }
    first.add(hn::LoadU(d, words + i), i);
    second.add(hn::LoadU(d, words + kStripeWords + i), i);
  }
  add_stripe(sum, first, index);
  add_stripe(sum, second, index + 1);
}

// The last ones: a stripe, or less.
HWY_INLINE void add_last_stripe(Hash128& sum, const std::byte* bytes, std::size_t byte_count,
                                std::size_t index) {
  const WordSums::D d;
  const auto* words = reinterpret_cast<const std::uint32_t*>(bytes);
  const std::size_t word_count = byte_count / 4;
  WordSums sums;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= word_count; i += hn::Lanes(d)) sums.add(hn::LoadU(d, words + i), i);
  if (4 * i < byte_count) {
    alignas(64) std::uint32_t tail[hn::MaxLanes(d)] = {};
    std::memcpy(tail, bytes + 4 * i, byte_count - 4 * i);
    sums.add(hn::Load(d, tail), i);
  }
  add_stripe(sum, sums, index);
}

Hash128 hash_words(const std::byte* bytes, std::size_t byte_count) {
  Hash128 sum;
  std::size_t stripe = 0;
  std::size_t at = 0;
  for (; byte_count - at >= 2 * kStripeBytes; at += 2 * kStripeBytes, stripe += 2)
    add_stripe_pair(sum, bytes + at, stripe);
  for (; at < byte_count; at += kStripeBytes, ++stripe) {
    add_last_stripe(sum, bytes + at,
                    byte_count - at < kStripeBytes ? byte_count - at : kStripeBytes, stripe);
  }
  return sum;
}
