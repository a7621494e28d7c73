#include "bench/codec/bench_data.hpp"

#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

namespace sparcl::bench {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::uint16_t ord(std::uint16_t bits) { return static_cast<std::uint16_t>((bits & 0x8000) ? ~bits : bits | 0x8000); }
std::uint16_t unord(std::uint16_t order) { return static_cast<std::uint16_t>((order & 0x8000) ? order & 0x7fff : ~order); }

// Step sizes of the trace of a fine-tuning with bf16 weights (89.5 % are 1): entropy 0.84 bits, and one for the sign.
unsigned draw_magnitude(std::mt19937_64& random) {
  struct Row {
    double share;
    unsigned first, last;
  };
  static constexpr Row kRows[] = {{0.8949, 1, 1},  {0.0430, 2, 2},   {0.0201, 3, 3},   {0.0092, 4, 4},
                                  {0.0060, 5, 5},  {0.0045, 6, 6},   {0.0035, 7, 7},   {0.0021, 8, 8},
                                  {0.0080, 9, 16}, {0.0044, 17, 32}, {0.0023, 33, 64}, {1, 65, 256}};
  double at = std::uniform_real_distribution<double>(0, 1)(random);
  for (const Row& row : kRows) {
    if (at < row.share) return row.first + static_cast<unsigned>(random() % (row.last - row.first + 1));
    at -= row.share;
  }
  return 1;
}

}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes) : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
  void* at = std::aligned_alloc(kHugePage, bytes_);
  if (at == nullptr) std::abort();
  madvise(at, bytes_, MADV_HUGEPAGE);
  std::memset(at, 0, bytes_);
  data_ = static_cast<std::byte*>(at);
}

HugeBuffer::~HugeBuffer() { std::free(data_); }

namespace {

void fill_base(std::uint16_t* base, std::uint64_t count, std::mt19937_64& random) {
  for (std::uint64_t i = 0; i < count; ++i) {
    // Exponents 0x70 to 0x7f: far from zero and from infinity, so that no step leaves the numbers.
    const std::uint64_t bits = random();
    base[i] = static_cast<std::uint16_t>((bits & 0x807f) | ((0x70 + ((bits >> 16) & 15)) << 7));
  }
}

std::uint16_t stepped(std::uint16_t value, std::mt19937_64& random) {
  const unsigned magnitude = draw_magnitude(random);
  const bool negative = (random() & 1) != 0;
  return unord(static_cast<std::uint16_t>(negative ? ord(value) - magnitude : ord(value) + magnitude));
}

// Bits of the changes' places given the chain that drew them: the forward algorithm (Rabiner 1989).
double chain_bits(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count, double inside, double leave,
                  double enter) {
  double active = enter / (enter + leave);  // given all elements so far
  double bits = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool changed = base[i] != target[i];
    const double likelihood = changed ? active * inside : 1 - active * inside;
    bits -= std::log2(likelihood);
    const double posterior = changed ? 1 : active * (1 - inside) / likelihood;
    active = posterior * (1 - leave) + (1 - posterior) * enter;
  }
  return bits;
}

}  // namespace

Limit fill_iid(std::uint16_t* base, std::uint16_t* target, std::uint64_t count, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  fill_base(base, count, random);
  std::memcpy(target, base, count * 2);
  std::geometric_distribution<std::uint64_t> gap(density);
  for (std::uint64_t i = density < 1 ? gap(random) : 0; i < count; i += 1 + (density < 1 ? gap(random) : 0)) {
    target[i] = stepped(base[i], random);
  }
  return limit_of(base, target, count);
}

Limit fill_clustered(std::uint16_t* base, std::uint16_t* target, std::uint64_t count, const Clusters& clusters,
                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  fill_base(base, count, random);
  std::memcpy(target, base, count * 2);
  const double share = clusters.density / clusters.inside;
  const double leave = 1 / clusters.run;
  const double enter = leave * share / (1 - share);
  std::uniform_real_distribution<double> uniform(0, 1);
  bool active = uniform(random) < share;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (active && uniform(random) < clusters.inside) target[i] = stepped(base[i], random);
    active = uniform(random) < (active ? 1 - leave : enter);
  }
  Limit limit = limit_of(base, target, count);
  if (limit.changed > 0) {
    limit.position_bits = chain_bits(base, target, count, clusters.inside, leave, enter) / static_cast<double>(limit.changed);
  }
  return limit;
}

Limit limit_of(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count) {
  std::map<int, std::uint64_t> steps;
  Limit limit;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (base[i] == target[i]) continue;
    ++limit.changed;
    ++steps[static_cast<std::int16_t>(ord(target[i]) - ord(base[i]))];
  }
  const double p = static_cast<double>(limit.changed) / static_cast<double>(count);
  if (p > 0 && p < 1) limit.position_bits = -std::log2(p) - (1 - p) / p * std::log2(1 - p);
  for (const auto& [step, times] : steps) {
    const double share = static_cast<double>(times) / static_cast<double>(limit.changed);
    limit.value_bits -= share * std::log2(share);
  }
  return limit;
}

std::vector<std::uint16_t> read_bf16(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t header_bytes = 0;
  if (!file.read(reinterpret_cast<char*>(&header_bytes), 8)) return {};
  std::string header(header_bytes, ' ');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  std::size_t bytes = 0;
  const nlohmann::json tensors = nlohmann::json::parse(header);
  for (const auto& [name, tensor] : tensors.items()) {
    if (name != "__metadata__") bytes = std::max(bytes, tensor["data_offsets"][1].get<std::size_t>());
  }
  std::vector<std::uint16_t> values(bytes / 2);
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes));
  return values;
}

}  // namespace sparcl::bench
