// Part of cpu_kernels.cpp, compiled once for each instruction set.

std::uint64_t copy_sum(const std::byte* from, std::size_t bytes, std::byte* to) {
  using D = hn::CappedTag<std::uint64_t, kSumColumns>;
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  constexpr std::size_t kRowBytes = 8 * kSumColumns;
  alignas(64) SumColumns a{}, b{};
  const auto add = [&](const std::byte* row, std::byte* out) HWY_ATTR {
    for (std::size_t i = 0; i < kSumColumns; i += lanes) {
      const auto words = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(row) + i);
      hn::StoreU(words, d, reinterpret_cast<std::uint64_t*>(out) + i);
      const auto sum = hn::Add(hn::Load(d, a.data() + i), words);
      hn::Store(sum, d, a.data() + i);
      hn::Store(hn::Add(hn::Load(d, b.data() + i), sum), d, b.data() + i);
    }
  };
  std::size_t at = 0;
  for (; at + kRowBytes <= bytes; at += kRowBytes) add(from + at, to + at);
  if (at < bytes) {
    alignas(64) std::byte row[kRowBytes] = {};
    std::memcpy(row, from + at, bytes - at);
    std::memcpy(to + at, row, bytes - at);
    add(row, row);
  }
  return sum_of(a, b);
}
