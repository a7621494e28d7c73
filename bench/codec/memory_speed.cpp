#include "bench/codec/memory_speed.hpp"

#include <algorithm>
#include <cstring>

// Function multiversioning draws in a resolver that the sanitizers' run-time is not ready for.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define SPARCL_BENCH_CLONES
#elif defined(__has_attribute) && __has_attribute(target_clones)
#define SPARCL_BENCH_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SPARCL_BENCH_CLONES
#endif

namespace sparcl::bench {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kWords = kLine / sizeof(std::uint64_t);

}  // namespace

SPARCL_BENCH_CLONES std::uint64_t read_one(const std::byte* a, std::size_t bytes) {
  std::uint64_t sums[2 * kWords] = {};
  for (std::size_t i = 0; i + 2 * kLine <= bytes; i += 2 * kLine) {
    std::uint64_t x[2 * kWords];
    std::memcpy(x, a + i, 2 * kLine);
    for (std::size_t j = 0; j < 2 * kWords; ++j) sums[j] += x[j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum ^= part;
  return sum;
}

SPARCL_BENCH_CLONES std::uint64_t read_two(const std::byte* a, const std::byte* b,
                                           std::size_t bytes) {
  std::uint64_t sums[kWords] = {};
  for (std::size_t i = 0; i + kLine <= bytes; i += kLine) {
    std::uint64_t x[kWords];
    std::uint64_t y[kWords];
    std::memcpy(x, a + i, kLine);
    std::memcpy(y, b + i, kLine);
    for (std::size_t j = 0; j < kWords; ++j) sums[j] += x[j] ^ y[j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum ^= part;
  return sum;
}

std::uint64_t touched_bytes(const std::byte* base, const std::byte* target, std::size_t bytes) {
  std::uint64_t lines = 0;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    lines += std::memcmp(base + at, target + at, std::min(kLine, bytes - at)) != 0;
  }
  return lines * kLine;
}

}  // namespace sparcl::bench
