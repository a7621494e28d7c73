// The codec against the oracle, which was written from docs/reference/wire-format.md alone.
// SPARCL_TEST_SEED replays one seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/codec/block_mode.hpp"
#include "tests/codec/both_decoders.hpp"
#include "tests/codec/forgery.hpp"
#include "tests/codec/golden_streams.hpp"
#include "tests/support/tier.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::codec {
namespace {

constexpr Verify kLevels[] = {Verify::kOff, Verify::kTouched, Verify::kFull};

std::vector<std::pair<std::string, Bytes>> golden_files(const std::string& folder) {
  std::vector<std::pair<std::string, Bytes>> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::tree() / "tests/codec/golden" / folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> chars((std::istreambuf_iterator<char>(file)),
                                  std::istreambuf_iterator<char>());
    const auto bytes = std::as_bytes(std::span(chars));
    files.emplace_back(entry.path().filename(), Bytes(bytes.begin(), bytes.end()));
  }
  return files;
}

void expect_agreement(std::span<const std::byte> stream, const State& held, const Hash128& schema,
                      const DecoderSetup& setup, const std::string& what) {
  const auto differs = difference(run_decoder(stream, held, schema, setup), held,
                                  run_oracle(stream, held, schema, setup.verify));
  EXPECT_FALSE(differs.has_value()) << what << ": " << *differs;
}

std::vector<std::uint64_t> seeds(std::uint64_t count) {
  if (const char* one = std::getenv("SPARCL_TEST_SEED")) return {std::strtoull(one, nullptr, 10)};
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

TEST(Oracle, MakesTheTargetOfEachGoldenFile) {
  for (const GoldenUpdate& update : golden_updates()) {
    const Bytes stream = encode_golden(update, kernels::cpu_kernels()).bytes;
    for (const Verify verify : kLevels) {
      if (verify == Verify::kFull && !update.options.with_state_hash) continue;
      const oracle::UpdateOutcome outcome = run_oracle(stream, update.base, kGoldenSchema, verify);
      ASSERT_EQ(outcome.finding, oracle::Finding::kAccepted)
          << update.name << ": " << outcome.reason;
      EXPECT_TRUE(outcome.arrays == update.target.arrays) << update.name;
    }
  }
}

TEST(Oracle, AgreesOnEachGoldenFileAndEachState) {
  for (const char* folder : {"good", "bad"}) {
    for (const auto& [name, stream] : golden_files(folder)) {
      for (const GoldenUpdate& update : golden_updates()) {
        for (const Verify verify : kLevels) {
          expect_agreement(stream, update.base, kGoldenSchema, {verify},
                           name + " on the base of " + update.name);
          expect_agreement(stream, update.target, kGoldenSchema, {verify},
                           name + " on the target of " + update.name);
        }
      }
      const auto differs = difference(run_sparse_decoder(stream, DataType::kInt16),
                                      oracle::decode_sparse(stream, 32));
      EXPECT_FALSE(differs.has_value()) << name << ": " << *differs;
    }
  }
}

constexpr DataType kStateTypes[] = {
    DataType::kInt8,    DataType::kUint8,    DataType::kInt32,      DataType::kUint32,
    DataType::kInt64,   DataType::kUint64,   DataType::kFloat16,    DataType::kFloat32,
    DataType::kFloat64, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2,
    DataType::kInt16,   DataType::kUint16,   DataType::kBool};

State random_shape(std::mt19937_64& random) {
  std::vector<ArraySpec> specs;
  for (std::uint64_t arrays = 1 + random() % 4; arrays > 0; --arrays) {
    const std::uint64_t limit = random() % 8 == 0 ? 150000 : 700;
    const DataType type = !specs.empty() && random() % 2 == 0
                              ? specs.back().datatype
                              : kStateTypes[random() % std::size(kStateTypes)];
    specs.push_back({type, random() % limit});
  }
  return random_state(std::move(specs), random());
}

// Bases of zeros, of small numbers, of anything: other steps, other exponents.
State random_base(std::mt19937_64& random) {
  State base = random_shape(random);
  const auto mask = static_cast<std::byte>(random() % 3 == 0 ? 0 : random());
  if (random() % 2 == 0) {
    for (Array& array : base.arrays) {
      for (std::byte& byte : array) byte &= mask;
    }
  }
  return base;
}

TEST(Oracle, ReadsWhatTheEncoderWrites) {
  constexpr double kDensities[] = {0, 0.0005, 0.01, 0.03, 0.2, 0.6, 1};
  const auto modes = block_modes();
  for (const std::uint64_t seed : seeds(test::by_tier(300, 20000))) {
    std::mt19937_64 random(seed);
    const State base = random_base(random);
    const State target =
        changed_state(base, kDensities[random() % std::size(kDensities)],
                      random() % 2 == 0 ? Change::kUlp : Change::kRandom, random());
    EncodeOptions options;
    options.schema_hash = kGoldenSchema;
    options.with_state_hash = random() % 2 == 0;
    options.fewest_bytes = random() % 2 == 0;
    if (random() % 4 == 0)
      options.values = {random() % 2 == 0 ? Values::kInt8 : Values::kFloat8, Rounding::kStochastic,
                        random()};
    options.mode = random() % 3 == 0 ? modes[random() % modes.size()] : nullptr;
    const Encoded encoded = encode(base, target, options);
    ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
    const oracle::UpdateOutcome outcome =
        run_oracle(encoded.bytes, base, kGoldenSchema,
                   options.with_state_hash ? kLevels[random() % 3] : Verify::kTouched);
    ASSERT_EQ(outcome.finding, oracle::Finding::kAccepted) << outcome.reason << ", seed " << seed;
    ASSERT_TRUE(options.values.is_lossy() || outcome.arrays == target.arrays) << "seed " << seed;
    const DecoderSetup setup{kLevels[random() % 3],
                             random() % 2 == 0 ? Writing::kStaged : Writing::kEarly};
    const State held = changed_state(random() % 2 == 0 ? base : target,
                                     random() % 2 == 0 ? 0 : 0.01, Change::kUlp, random());
    expect_agreement(encoded.bytes, held, kGoldenSchema, setup, fmt::format("seed {}", seed));
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Oracle, AgreesOnForgedUpdates) {
  std::vector<std::pair<GoldenUpdate, Bytes>> victims;
  for (GoldenUpdate& update : golden_updates()) {
    Bytes stream = encode_golden(update, kernels::cpu_kernels()).bytes;
    if (update.name != "many_arrays") victims.emplace_back(std::move(update), std::move(stream));
  }
  for (const std::uint64_t seed : seeds(test::by_tier(4000, 1'000'000))) {
    Random random(seed);
    const auto& [update, good] = victims[random() % victims.size()];
    const Bytes bad =
        random() % 8 == 0 ? damage(good, victims[0].second, random) : forge(good, random);
    const DecoderSetup setup{kLevels[random() % 3],
                             random() % 2 == 0 ? Writing::kStaged : Writing::kEarly,
                             &kernels::cpu_kernels(), 1 + random() % 5000};
    expect_agreement(bad, random() % 4 == 0 ? update.target : update.base, kGoldenSchema, setup,
                     fmt::format("seed {}", seed));
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Oracle, AgreesOnForgedSparseVectors) {
  const Bytes good = encode_golden(golden_sparse(), kernels::cpu_kernels());
  for (const std::uint64_t seed : seeds(test::by_tier(1500, 500'000))) {
    Random random(seed);
    const Bytes stream = seed == 0           ? good
                         : random() % 8 == 0 ? damage(good, good, random)
                                             : forge(good, random);
    const auto differs = difference(
        run_sparse_decoder(stream, DataType::kInt16, kernels::cpu_kernels(), 1 + random() % 5000),
        oracle::decode_sparse(stream, 32));
    ASSERT_FALSE(differs.has_value()) << *differs << ", seed " << seed;
  }
}

}  // namespace
}  // namespace sparcl::codec
