#pragma once
// What the tests of single block modes share.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "src/codec/block_mode.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {

inline Status decode_writing(std::span<const std::byte> stream, State& held, Writing writing,
                             Verify verify = Verify::kTouched) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(stream);
  UpdateDecoder decoder(map, arrays, verify, {}, kernels::cpu_kernels(), writing);
  SPARCL_RETURN_IF_ERROR(check_stream(decoder, staging, stream.size()));
  return decoder.apply(staging);
}

// A payload of the mode for `elements` of which a cluster changes; empty if the mode cannot.
inline std::vector<std::byte> payload_of(const BlockMode& mode, DataType type,
                                         std::uint32_t elements, std::mt19937_64& random) {
  State base = random_state({{type, elements}}, random());
  if (&mode == &kAddedMode) {  // which takes numbers only
    for (std::size_t i = element_bytes(type) - 1; i < base.arrays[0].size();
         i += element_bytes(type))
      base.arrays[0][i] &= std::byte{0x3f};
  }
  State target = base;
  if (mode.whole)
    std::fill(target.arrays[0].begin(), target.arrays[0].end(),
              std::byte{0x3f});  // so that planes can be coded
  const std::size_t width = element_bytes(type);
  for (std::uint32_t i = elements / 3; i < elements / 2; ++i) {
    if (random() % 3 != 0) target.arrays[0][i * width] ^= std::byte{3};
  }
  const Piece piece{0, 0, elements, 0};
  const auto arrays = target.read();
  BlockChanges changes;
  changes.kernels = &kernels::cpu_kernels();
  changes.target = {{type, elements}, {&piece, 1}, arrays};
  const auto base_arrays = base.read();
  changes.base = {{type, elements}, {&piece, 1}, base_arrays};
  changes.may_need_base = true;
  changes.has_steps = true;
  changes.fresh = mode.fresh;
  changes.forced = true;
  changes.bytes_to_beat = kCannot;
  changes.thorough = true;
  changes.make_room();
  changes.set_changes(kernels::cpu_kernels().of(type).diff_values(
      base.arrays[0].data(), target.arrays[0].data(), elements, 0, changes.positions.data(),
      changes.old_values.data(), changes.new_values.data()));
  changes.set_changes(
      changes.lossy.choose({.values = &mode == &kAddedMode ? Values::kInt8 : Values::kExact}, 0,
                           {0, type, changes.target.pieces, changes.positions.data(),
                            changes.old_values.data(), changes.new_values.data(), changes.count}));
  const std::size_t bytes = mode.cost(changes);
  if (bytes == kCannot) return {};
  std::vector<std::byte> payload(bytes);
  mode.encode(changes, payload.data());
  return payload;
}

// Decodes damaged payloads: each is refused, or is a block's changes: ascending positions inside
// it.
inline void expect_mutations_are_harmless(const BlockMode& mode, DataType type, std::size_t seeds) {
  constexpr std::uint32_t kElements = 3001;
  std::mt19937_64 random(7);
  const std::vector<std::byte> good = payload_of(mode, type, kElements, random);
  ASSERT_FALSE(good.empty());
  const State held = random_state({{type, kElements}}, random());
  DecodedBlock block;
  std::size_t refused = 0;
  for (std::size_t seed = 0; seed < seeds; ++seed) {
    std::vector<std::byte> bad = good;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0 && !bad.empty(); --edits) {
      const std::size_t at =
          random() % std::min<std::size_t>(bad.size(), random() % 2 == 0 ? 24 : bad.size());
      switch (random() % 5) {
        case 0:
          bad[at] ^= static_cast<std::byte>(1 << (random() % 8));
          break;
        case 1:
          bad[at] = static_cast<std::byte>(random());
          break;
        case 2:
          bad.resize(at);
          break;
        case 3:
          bad.insert(bad.begin() + static_cast<std::ptrdiff_t>(at),
                     static_cast<std::byte>(random()));
          break;
        default:
          std::fill(bad.begin() + static_cast<std::ptrdiff_t>(at), bad.end(),
                    static_cast<std::byte>(random()));
      }
    }
    const std::size_t bytes = bad.size();
    bad.resize(bytes + kernels::kBitSlackBytes);
    if (mode.decode({type, kElements}, {bad.data(), bytes}, kernels::cpu_kernels(), block) !=
        nullptr) {
      ++refused;
      continue;
    }
    if (block.kind == DecodedKind::kWhole) continue;
    if (mode.resolve != nullptr &&
        !mode.resolve({type, kElements}, held.arrays[0].data(), kernels::cpu_kernels(), block)) {
      ++refused;
      continue;
    }
    ASSERT_GE(block.count, 1u);
    const auto changed = block.changed();
    ASSERT_LT(changed.back(), kElements) << mode.name << " seed " << seed;
    ASSERT_TRUE(std::adjacent_find(changed.begin(), changed.end(), std::greater_equal<>()) ==
                changed.end())
        << mode.name;
  }
  EXPECT_GT(refused, seeds / 10) << mode.name << ": the mutations do not bite";
}

}  // namespace sparcl::codec
