// A receiver against an enemy: whatever arrives, it reads no byte that is not there, writes no
// element before apply(), and refuses what was damaged on the way. SPARCL_TEST_SEED replays one
// seed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/codec/forgery.hpp"
#include "tests/codec/golden_streams.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

struct Victim {
  const GoldenUpdate* update;
  Bytes good;
};

std::vector<std::uint64_t> seeds() {
  if (const char* one = std::getenv("SPARCL_TEST_SEED")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> all(test::by_tier(15000u, 1000000u));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

struct Attack {
  Verify verify;
  const kernels::KernelSet* kernels;
};

// Feeds the bytes; true if they were approved. Nothing may be written until then.
bool approved(const GoldenUpdate& update, const Bytes& bytes, const Attack& attack,
              std::uint64_t seed) {
  State held = update.base;
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(bytes);
  UpdateDecoder decoder(map, arrays, attack.verify, kGoldenSchema, *attack.kernels);
  const Status status = check_stream(decoder, staging, bytes.size(), 1 + seed % 5000, 1 + seed % 7);
  EXPECT_TRUE(held.arrays == update.base.arrays) << "written before apply(), seed " << seed;
  if (!status.ok()) {
    EXPECT_FALSE(status.message().empty());
    EXPECT_FALSE(decoder.apply(staging).ok()) << "applied though refused, seed " << seed;
    EXPECT_TRUE(held.arrays == update.base.arrays) << "written though refused, seed " << seed;
    return false;
  }
  EXPECT_TRUE(decoder.apply(staging).ok()) << "approved, but not applied, seed " << seed;
  return true;
}

TEST(HostileUpdates, NoneIsAppliedThatWasDamaged) {
  const auto updates = golden_updates();
  std::vector<Victim> victims;
  for (const GoldenUpdate& update : updates)
    victims.push_back({&update, encode_golden(update, kernels::cpu_kernels()).bytes});
  std::uint64_t refused = 0;
  for (const std::uint64_t seed : seeds()) {
    Random random(seed);
    const Victim& victim = victims[random() % victims.size()];
    const Verify verify = static_cast<Verify>(random() % 3);
    const bool forged = random() % 2 == 0;
    const Bytes bad = forged ? forge(victim.good, random)
                             : damage(victim.good, victims[random() % victims.size()].good, random);
    const Attack attack{
        verify, random() % 8 == 0 ? &kernels::reference_kernels() : &kernels::cpu_kernels()};
    const bool passed = approved(*victim.update, bad, attack, seed);
    refused += !passed;
    if (!forged && bad != victim.good) {
      ASSERT_FALSE(passed) << "damage went unseen, seed " << seed;
    }
  }
  EXPECT_GE(refused, seeds().size() / 2) << "the mutations do not bite";
}

TEST(HostileUpdates, ThatLeadElsewhereAreRefusedByTheFullCheck) {
  // Only blocks are forged, so the hashes at the end are those of the true states: what passes
  // leads to the true target.
  GoldenUpdate update = golden_updates()[6];
  const Bytes good = encode_golden(update, kernels::cpu_kernels()).bytes;
  for (std::uint64_t seed = 0; seed < test::by_tier(5000u, 200000u); ++seed) {
    Random random(seed);
    RawStream stream = take_apart(good);
    RawSection& section = stream.sections[2 + random() % (stream.sections.size() - 4)];
    if (!is_block(section.tag)) continue;
    section.content[random() % section.content.size()] ^=
        static_cast<std::byte>(1 << (random() % 8));
    State held = update.base;
    if (decode(put_together(stream), held, Verify::kFull, kGoldenSchema).ok()) {
      ASSERT_TRUE(held.arrays == update.target.arrays) << seed;
    }
  }
}

TEST(HostileUpdates, RandomBytesAreRefused) {
  const GoldenUpdate update = golden_updates()[1];
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    Bytes bytes(random() % 300);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    const Bytes prefix = put_together(
        {{take_apart(encode_golden(update, kernels::cpu_kernels()).bytes).prefix}, {}});
    if (seed % 2 == 0) bytes.insert(bytes.begin(), prefix.begin(), prefix.end());
    ASSERT_FALSE(approved(update, bytes, {Verify::kTouched, &kernels::cpu_kernels()}, seed));
  }
}

TEST(HostileUpdates, AChunkOfMoreThan16MiBIsRefusedBeforeItHasArrived) {
  const GoldenUpdate update = golden_updates()[1];
  RawStream stream = take_apart(encode_golden(update, kernels::cpu_kernels()).bytes);
  for (int i = 0; i < 3; ++i)
    stream.sections.insert(stream.sections.begin() + 1,
                           RawSection{0xc1, Bytes(std::size_t{7} << 20)});
  State held = update.base;
  const Status status = decode(put_together(stream), held, Verify::kTouched, kGoldenSchema,
                               kernels::cpu_kernels(), 1000000);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.message().find("16 MiB"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace sparcl::codec
