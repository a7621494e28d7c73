// Updates in a row as one: what is composed leads from the first base to the last target, bit for
// bit.
#include "src/codec/compose.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/codec/codec_support.hpp"
#include "tests/codec/golden_streams.hpp"
#include "tests/codec/stream_surgery.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::codec {
namespace {

using ::testing::HasSubstr;

EncodeOptions file_options(const BlockMode* mode = nullptr) {
  EncodeOptions options;
  options.with_state_hash = true;
  options.with_runs = true;
  options.mode = mode;
  return options;
}

struct Composed {
  Status status;
  std::vector<std::byte> bytes;
};

Composed compose(const std::vector<std::vector<std::byte>>& streams,
                 const kernels::KernelSet& kernels = kernels::cpu_kernels(),
                 std::span<const std::byte> attachment = {}) {
  std::vector<Staging> stagings(streams.size());
  std::vector<UpdateReader> readers;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    stagings[i].write(0, streams[i]);
    Result<UpdateReader> reader = UpdateReader::open(stagings[i], streams[i].size());
    if (!reader.ok()) return {reader.status(), {}};
    readers.push_back(std::move(*reader));
    names.push_back(fmt::format("update {}", i));
  }
  VectorSink sink;
  const Result<ComposeStats> stats = compose_updates(readers, names, attachment, kernels, sink);
  EXPECT_TRUE(!stats.ok() || stats->encoded_bytes == sink.bytes().size());
  return {stats.status(), sink.bytes()};
}

std::set<unsigned> modes_of(std::span<const std::byte> stream) {
  std::set<unsigned> modes;
  for (const RawSection& section : take_apart(Bytes(stream.begin(), stream.end())).sections) {
    if (is_block(section.tag)) modes.insert(mode_of(section.tag));
  }
  return modes;
}

// A chain of states, and the updates between them.
struct Chain {
  std::vector<State> states;
  std::vector<std::vector<std::byte>> streams;

  void add(State next, const BlockMode* mode = nullptr) {
    streams.push_back(encode(states.back(), next, file_options(mode)).bytes);
    states.push_back(std::move(next));
  }
};

void expect_leads_to_the_end(const Chain& chain) {
  const Composed composed = compose(chain.streams);
  ASSERT_TRUE(composed.status.ok()) << composed.status.message();
  for (const Verify verify : {Verify::kFull, Verify::kOff}) {
    State held = chain.states.front();
    const Status status = decode(composed.bytes, held, verify);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(held.arrays == chain.states.back().arrays);
  }
}

const std::vector<ArraySpec> kArrays{
    {DataType::kBfloat16, 70000},  {DataType::kFloat32, 0},     {DataType::kBfloat16, 63},
    {DataType::kFloat32, 1000},    {DataType::kInt8, 131072},   {DataType::kFloat64, 999},
    {DataType::kFloat8e4m3, 5000}, {DataType::kFloat16, 65537}, {DataType::kInt64, 3000}};

TEST(Compose, EveryPairOfModes) {
  const BlockMode* modes[] = {nullptr, &kDenseMode, &kVerbatimMode, &kFlatMode};
  std::uint64_t seed = 1;
  for (const BlockMode* first : modes) {
    for (const BlockMode* second : modes) {
      for (const double density : {0.0001, 0.02, 0.4}) {
        Chain chain{{random_state(kArrays, seed)}, {}};
        chain.add(changed_state(chain.states.back(), density, Change::kUlp, ++seed), first);
        chain.add(changed_state(chain.states.back(), density, Change::kRandom, ++seed), second);
        expect_leads_to_the_end(chain);
      }
    }
  }
}

TEST(Compose, LongChainsOfMixedBlocks) {
  Chain chain{{random_state(kArrays, 7)}, {}};
  for (std::uint64_t i = 0; i < 9; ++i) {
    chain.add(changed_state(chain.states.back(), i % 2 == 0 ? 0.01 : 0.003,
                            i % 3 == 0 ? Change::kRandom : Change::kUlp, 20 + i),
              i % 2 == 0 ? &kVerbatimMode : &kFlatMode);
  }
  expect_leads_to_the_end(chain);
  // Composition of compositions: ((0 1 2) (3 4)) 5 ...
  const Composed head = compose({chain.streams[0], chain.streams[1], chain.streams[2]});
  const Composed middle = compose({chain.streams[3], chain.streams[4]});
  ASSERT_TRUE(head.status.ok() && middle.status.ok());
  EXPECT_TRUE(modes_of(head.bytes).contains(kMixedMode.id));
  const Composed twice = compose({compose({head.bytes, middle.bytes}).bytes, chain.streams[5]});
  ASSERT_TRUE(twice.status.ok()) << twice.status.message();
  State held = chain.states[0];
  ASSERT_TRUE(decode(twice.bytes, held, Verify::kFull).ok());
  EXPECT_TRUE(held.arrays == chain.states[6].arrays);
  EXPECT_TRUE(
      twice.bytes ==
      compose({chain.streams.begin(), chain.streams.begin() + 6}).bytes);  // whatever the brackets
}

TEST(Compose, ThereAndBackIsNothing) {
  const State base = random_state({{DataType::kBfloat16, 200000}}, 3);
  Chain chain{{base}, {}};
  chain.add(changed_state(base, 0.01, Change::kUlp, 4), &kFlatMode);
  chain.add(base, &kFlatMode);
  const Composed composed = compose(chain.streams);
  ASSERT_TRUE(composed.status.ok());
  EXPECT_TRUE(modes_of(composed.bytes).empty());
  expect_leads_to_the_end(chain);
}

// What changes in every step costs its place once.
TEST(Compose, IsSmallerThanItsParts) {
  const State base = random_state({{DataType::kBfloat16, 300000}}, 5);
  State next = base;
  Chain chain{{base}, {}};
  std::size_t bytes = 0;
  for (int step = 0; step < 8; ++step) {
    for (std::size_t i = 0; i < 300000; i += 50)
      next.arrays[0][2 * i] = static_cast<std::byte>(static_cast<int>(next.arrays[0][2 * i]) ^ 1);
    chain.add(next, &kFlatMode);
    bytes += chain.streams.back().size();
  }
  chain.streams.pop_back();  // an odd number of steps: something is left
  chain.states.pop_back();
  EXPECT_LT(6 * compose(chain.streams).bytes.size(), bytes);
  expect_leads_to_the_end(chain);
}

// Clustered changes stay small: the composed block takes its cheapest mode.
TEST(Compose, ClustersStayCheap) {
  const State base = random_state({{DataType::kBfloat16, 65536}}, 5);
  Chain chain{{base}, {}};
  for (const std::size_t first : {1000u, 1400u}) {
    State next = chain.states.back();
    for (std::size_t i = first; i < first + 300; ++i) next.arrays[0][2 * i] ^= std::byte{1};
    chain.add(next);
  }
  EXPECT_EQ(modes_of(compose(chain.streams).bytes), std::set<unsigned>{kTwoLevelMode.id});
  expect_leads_to_the_end(chain);
}

TEST(Compose, RefusesWhatDoesNotFollow) {
  Chain chain{{random_state({{DataType::kBfloat16, 5000}}, 3)}, {}};
  for (std::uint64_t i = 0; i < 3; ++i)
    chain.add(changed_state(chain.states.back(), 0.01, Change::kUlp, 4 + i));
  const Composed gap = compose({chain.streams[0], chain.streams[2]});
  EXPECT_EQ(gap.status.code(), Code::kWrongBase);
  EXPECT_THAT(gap.status.message(), HasSubstr("update 1 does not follow update 0"));
  EXPECT_EQ(compose({chain.streams[1], chain.streams[0]}).status.code(), Code::kWrongBase);
  EXPECT_EQ(compose({}).status.code(), Code::kInvalidArgument);

  const State other = random_state({{DataType::kFloat16, 5000}}, 3);
  EXPECT_EQ(compose({chain.streams[0], encode(other, other, file_options()).bytes}).status.code(),
            Code::kMismatch);

  EncodeOptions versions = file_options();
  versions.base_version = 7;
  EXPECT_EQ(compose({chain.streams[0], encode(chain.states[1], chain.states[2], versions).bytes})
                .status.code(),
            Code::kWrongBase);
}

TEST(Compose, RefusesWhatNeedsABase) {
  const State base = random_state({{DataType::kBfloat16, 5000}}, 3);
  const State target = changed_state(base, 0.01, Change::kUlp, 4);
  EncodeOptions no_runs = file_options();
  no_runs.with_runs = false;
  EncodeOptions no_hash = file_options();
  no_hash.with_state_hash = false;
  for (const EncodeOptions& options : {no_runs, no_hash}) {
    const Composed composed = compose({encode(base, target, options).bytes});
    EXPECT_EQ(composed.status.code(), Code::kUnsupported);
    EXPECT_THAT(composed.status.message(), HasSubstr("update 0"));
  }
}

TEST(Compose, AReceiverThatDoesNotCheckAllIsTold) {
  const State base = random_state({{DataType::kBfloat16, 5000}}, 3);
  const State target = changed_state(base, 0.01, Change::kUlp, 4);
  const Composed composed = compose({encode(base, target, file_options()).bytes});
  State held = base;
  const Status status = decode(composed.bytes, held, Verify::kTouched);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("full"));
  EXPECT_TRUE(held.arrays == base.arrays);
  held = target;
  EXPECT_TRUE(decode(composed.bytes, held, Verify::kFull).ok());  // the target already
  EXPECT_TRUE(held.arrays == target.arrays);
  held = changed_state(base, 0.001, Change::kRandom, 9);
  EXPECT_EQ(decode(composed.bytes, held, Verify::kFull).code(), Code::kWrongBase);
}

TEST(Compose, CarriesTheAttachmentAndTheVersions) {
  const State base = random_state({{DataType::kInt32, 500}}, 3);
  EncodeOptions options = file_options();
  options.base_version = 3;
  options.target_version = 4;
  const Bytes note{std::byte{'n'}, std::byte{'o'}};
  options.attachment = note;
  const Composed composed =
      compose({encode(base, base, options).bytes}, kernels::cpu_kernels(), note);
  ASSERT_TRUE(composed.status.ok());
  const Staging& staging = staged(composed.bytes);
  const Result<UpdateReader> reader = UpdateReader::open(staging, composed.bytes.size());
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(reader->header().base_version, 3u);
  EXPECT_EQ(reader->header().target_version, 4u);
  EXPECT_TRUE(std::ranges::equal(reader->attachment(), note));
}

// Each byte of a stream changed: never a crash, never a composition.
TEST(Compose, RefusesEveryDamagedByte) {
  Chain chain{{random_state({{DataType::kBfloat16, 3000}, {DataType::kInt8, 400}}, 3)}, {}};
  chain.add(changed_state(chain.states.back(), 0.02, Change::kUlp, 4), &kVerbatimMode);
  chain.add(changed_state(chain.states.back(), 0.02, Change::kUlp, 5), &kFlatMode);
  const std::vector<std::byte> mixed = compose(chain.streams).bytes;
  ASSERT_TRUE(modes_of(mixed).contains(kMixedMode.id));
  for (std::size_t at = 0; at < mixed.size(); ++at) {
    std::vector<std::byte> damaged = mixed;
    damaged[at] ^= std::byte{0x21};
    EXPECT_FALSE(compose({damaged}).status.ok()) << at;
    damaged.resize(at);
    EXPECT_FALSE(compose({damaged}).status.ok()) << at;
  }
}

// The same with mended checksums: what is composed of nonsense does not pass its state hash, and
// nothing worse happens. An update of nearly 2^64 elements, whose blocks' indices would begin anew
// behind the largest number.
TEST(Compose, RefusesBlocksThatWrapAround) {
  const auto varint = [](std::uint64_t value) {
    ByteWriter writer;
    writer.write_varint(value);
    return writer.take();
  };
  RawStream stream = take_apart(encode(random_state({{DataType::kInt8, 10}}, 1),
                                       random_state({{DataType::kInt8, 10}}, 2), file_options())
                                    .bytes);
  const std::uint64_t elements = ~std::uint64_t{0} - 255;
  store_le(stream.content(kTagUpdateHeader).data() + 40, elements);
  RawSection& runs = stream.sections[1];
  ASSERT_EQ(runs.tag, kTagRuns);
  ByteWriter writer;  // 255 runs of 2^56 and the rest
  for (std::uint64_t left = elements, i = 0; left > 0; ++i) {
    const std::uint64_t count = std::min(left, std::uint64_t{1} << 56);
    writer.write(static_cast<std::uint8_t>(i % 2));
    writer.write_varint(count);
    left -= count;
  }
  runs.content = writer.take();
  const std::size_t at = stream.find(kTagBlock);
  stream.sections.insert(stream.sections.begin() + static_cast<std::ptrdiff_t>(at),
                         stream.sections[at]);
  for (const std::size_t i : {at, at + 1}) {
    const Bytes gap = varint(std::uint64_t{1} << 63);
    stream.sections[i].tag |= 0x20;
    stream.sections[i].content.insert(stream.sections[i].content.begin(), gap.begin(), gap.end());
  }
  store_le(stream.content(kTagEnd).data(), std::uint64_t{2});
  const Status status = compose({put_together(stream)}).status;
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(),
              testing::AnyOf(HasSubstr("past the last"), HasSubstr("runs of arrays")));
}

TEST(Compose, RefusesRunsBehindABlock) {
  const State base = random_state({{DataType::kInt8, 10}}, 1);
  RawStream stream =
      take_apart(encode(base, random_state({{DataType::kInt8, 10}}, 2), file_options()).bytes);
  ASSERT_EQ(stream.sections[1].tag, kTagRuns);
  std::swap(stream.sections[1], stream.sections[2]);
  const Composed composed = compose({put_together(stream)});
  EXPECT_EQ(composed.status.code(), Code::kCorrupt);
  EXPECT_THAT(composed.status.message(), HasSubstr("after a block"));
}

TEST(Compose, SurvivesForgedBlocks) {
  Chain chain{{random_state({{DataType::kBfloat16, 3000}, {DataType::kInt8, 400}}, 3)}, {}};
  chain.add(changed_state(chain.states.back(), 0.02, Change::kUlp, 4), &kVerbatimMode);
  chain.add(changed_state(chain.states.back(), 0.02, Change::kUlp, 5), &kFlatMode);
  const Composed good = compose(chain.streams);
  const RawStream stream = take_apart(Bytes(good.bytes.begin(), good.bytes.end()));
  std::size_t accepted = 0;
  for (std::size_t i = 0; i < stream.sections.size(); ++i) {
    if (!is_block(stream.sections[i].tag) && stream.sections[i].tag != kTagRuns) continue;
    for (std::size_t at = 0; at < stream.sections[i].content.size(); ++at) {
      for (const int flip : {1, 0x80, 0x7f}) {
        RawStream forged = stream;
        forged.sections[i].content[at] ^= static_cast<std::byte>(flip);
        const Bytes bytes = put_together(forged);
        const Composed composed = compose({std::vector<std::byte>(bytes.begin(), bytes.end())});
        if (!composed.status.ok()) continue;
        ++accepted;
        State held = chain.states.front();
        const Status status = decode(composed.bytes, held, Verify::kFull);
        EXPECT_TRUE(!status.ok() || held.arrays == chain.states.back().arrays);
        EXPECT_TRUE(status.ok() || held.arrays == chain.states.front().arrays);
      }
    }
  }
  EXPECT_GT(accepted, 0u);  // values may be anything
}

// Of all bodies of the kernels the same bytes, and for good.
TEST(Compose, MakesTheGoldenFile) {
  GoldenRandom random(42);
  const State base = golden_state({{DataType::kBfloat16, 3000}, {DataType::kInt16, 300}}, random);
  State middle = base;
  golden_change(middle, 0, 0, 40, 2, random);
  golden_change(middle, 1, 0, 20, 14, random);
  State target = middle;
  golden_change(target, 0, 0, 40, 2, random);
  EncodeOptions first = file_options(&kVerbatimMode);
  EncodeOptions second = file_options(&kFlatMode);
  first.schema_hash = second.schema_hash = kGoldenSchema;
  const std::filesystem::path path = test::tree() / "tests/codec/golden/good/composed.sparcl";
  std::vector<const kernels::KernelSet*> sets{&kernels::reference_kernels()};
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) sets.push_back(&set);
  for (const kernels::KernelSet* set : sets) {
    const Composed composed = compose(
        {encode(base, middle, first, *set).bytes, encode(middle, target, second, *set).bytes},
        *set);
    ASSERT_TRUE(composed.status.ok()) << composed.status.message();
    EXPECT_TRUE(modes_of(composed.bytes).contains(kMixedMode.id));
    if (std::getenv("SPARCL_WRITE_GOLDEN") != nullptr && !std::filesystem::exists(path)) {
      std::ofstream(path, std::ios::binary)
          .write(reinterpret_cast<const char*>(composed.bytes.data()),
                 static_cast<std::streamsize>(composed.bytes.size()));
    }
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> golden((std::istreambuf_iterator<char>(file)),
                                   std::istreambuf_iterator<char>());
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(golden)), composed.bytes)) << set->name;
    State held = base;
    ASSERT_TRUE(decode(composed.bytes, held, Verify::kFull, kGoldenSchema, *set).ok());
    EXPECT_TRUE(held.arrays == target.arrays);
  }
}

}  // namespace
}  // namespace sparcl::codec
