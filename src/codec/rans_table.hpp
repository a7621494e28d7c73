#pragma once
// Tables of the entropy coder (kernels/rans.hpp): how often each symbol comes, rounded to shares of
// 2^11, on the wire and off it.

#include <array>
#include <cstdint>
#include <span>

#include "kernels/bit_stream.hpp"
#include "kernels/rans.hpp"
#include "src/codec/split_rice.hpp"

namespace sparcl::codec {

using SymbolCounts = std::array<std::uint32_t, kernels::kRansSymbols>;
using Frequencies = std::array<std::uint16_t, kernels::kRansSymbols>;  // their sum is kRansSlots

// counts: of the first symbols; at least one is not 0, their sum is at most 2^16. Integers only, so
// that every sender decides alike.
Frequencies normalise(std::span<const std::uint32_t> counts);

// About the bits of the table itself, and of symbols that come so often. In units of 2^-8 bits.
std::uint64_t table_cost(std::span<const std::uint32_t> counts);
std::uint64_t symbols_cost(std::span<const std::uint32_t> counts);

std::uint64_t table_bits(const Frequencies& frequencies);
void write_table(const Frequencies& frequencies, kernels::BitWriter& bits);
// Hostile: false if there is none, or its sum is wrong.
bool read_table(BitCursor& bits, Frequencies& frequencies);

void fill_push(const Frequencies& frequencies, kernels::RansPush* table);  // kRansSymbols entries
void fill_pop(const Frequencies& frequencies, std::uint32_t* table);       // kRansSlots entries

}  // namespace sparcl::codec
