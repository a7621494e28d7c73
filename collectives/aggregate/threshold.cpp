#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "collectives/aggregate/aggregation.hpp"
#include "src/comm/start/small_gather.hpp"

namespace sparcl::collectives::aggregate {
namespace {

constexpr unsigned kDigitBits = 8;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
using Counts = std::array<std::uint64_t, kDigits>;

// How many keys with this prefix have each next digit.
Counts count_digits(std::span<const std::uint32_t> keys, std::uint64_t prefix, unsigned shift) {
  Counts counts{};
  for (const std::uint64_t key : keys) {
    if (key >> (shift + kDigitBits) == prefix) ++counts[key >> shift & (kDigits - 1)];
  }
  return counts;
}

}  // namespace

Task find_threshold(const CommContext& comm, std::uint32_t number,
                    std::span<const std::uint32_t> keys, std::uint64_t keep, Threshold& threshold) {
  const auto ranks = static_cast<std::size_t>(comm.engine->transport().size());
  const auto rank = static_cast<std::size_t>(comm.engine->transport().rank());
  std::uint64_t prefix = 0, left = keep;
  for (unsigned shift = 32; shift > 0;) {
    shift -= kDigitBits;
    const Counts own = count_digits(keys, prefix, shift);
    std::vector<std::byte> gathered;
    Task gather = comm::small_gather(*comm.engine, {number, kFactsLane},
                                     std::as_bytes(std::span(own)), gathered);
    const Status alive = co_await gather;
    if (!alive.ok()) co_return alive;
    std::vector<Counts> all(ranks);
    std::memcpy(all.data(), gathered.data(), gathered.size());

    std::size_t digit = kDigits;
    std::uint64_t with_digit = 0;
    do {
      if (digit == 0) co_return Status();  // all are kept
      left -= with_digit;
      --digit;
      with_digit = 0;
      for (const Counts& each : all) with_digit += each[digit];
    } while (with_digit < left);
    prefix = prefix << kDigitBits | digit;
    if (shift > 0) continue;
    threshold.least = static_cast<std::uint32_t>(prefix);
    for (std::size_t r = 0; r < rank; ++r) left -= std::min(left, all[r][digit]);
    threshold.ties = std::min(left, own[digit]);
  }
  co_return Status();
}

}  // namespace sparcl::collectives::aggregate
