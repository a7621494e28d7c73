#include "src/codec/rans_stream.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

constexpr std::size_t kStateBytes = sizeof(kernels::RansStates);

}  // namespace

void RansStream::code(const kernels::KernelSet& kernels, const std::uint8_t* symbols,
                      const std::uint8_t* contexts, std::size_t count,
                      std::span<const Frequencies> tables) {
  kernels::RansPush* push = push_.need(tables.size() * kernels::kRansSymbols);
  for (std::size_t i = 0; i < tables.size(); ++i)
    fill_push(tables[i], push + i * kernels::kRansSymbols);
  states_.fill(kernels::kRansLeast);
  std::uint16_t* end = room_.need(count) + count;
  words_ = kernels.rans.encode(symbols, contexts, count, push, end, states_);
  word_count_ = static_cast<std::size_t>(end - words_);
}

std::size_t RansStream::bytes() const {
  std::byte varint[kMaxVarintBytes];
  return store_varint(varint, word_count_) + kStateBytes + 2 * word_count_;
}

std::byte* RansStream::write(std::byte* out) const {
  out += store_varint(out, word_count_);
  std::memcpy(out, states_.data(), kStateBytes);
  std::memcpy(out + kStateBytes, words_, 2 * word_count_);
  return out + kStateBytes + 2 * word_count_;
}

bool RansStreamReader::take(std::span<const std::byte>& payload, std::size_t max_words) {
  ByteReader reader(payload);
  std::uint64_t words = 0;
  std::span<const std::byte> states;
  if (!reader.read_varint(words) || words > max_words) return false;
  if (!reader.read_bytes(kStateBytes, states) ||
      !reader.read_bytes(2 * static_cast<std::size_t>(words), words_))
    return false;
  std::memcpy(states_.data(), states.data(), kStateBytes);
  payload = payload.subspan(reader.position());
  return std::all_of(states_.begin(), states_.end(),
                     [](std::uint32_t x) { return x >= kernels::kRansLeast && x < 1u << 31; });
}

bool RansStreamReader::decode(const kernels::KernelSet& kernels,
                              std::span<const Frequencies> tables, const std::uint8_t* contexts,
                              std::size_t count, std::uint8_t* symbols) {
  std::uint32_t* pop = pop_.need(tables.size() * kernels::kRansSlots);
  for (std::size_t i = 0; i < tables.size(); ++i)
    fill_pop(tables[i], pop + i * kernels::kRansSlots);
  kernels::RansStates states = states_;
  const std::size_t used =
      kernels.rans.decode(words_.data(), words_.size() / 2, contexts, count, pop, states, symbols);
  return used == words_.size() / 2 &&
         std::all_of(states.begin(), states.end(),
                     [](std::uint32_t state) { return state == kernels::kRansLeast; });
}

}  // namespace sparcl::codec
