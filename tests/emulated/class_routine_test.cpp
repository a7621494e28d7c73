// The block routines that read blocks of classes, run on the host against the codec's decoder: what
// comes of changes, whatever is held, and what is refused.

#include "src/codec/class_choice.hpp"
#include "src/codec/class_decoder.hpp"
#include "src/codec/class_encoder.hpp"
#include "src/codec/superblock.hpp"
#include "tests/emulated/emulated_blocks.hpp"
#include "tests/support/tier.hpp"
#include "tests/support/weights.hpp"
// After the emulation.
#include "kernels/cuda/class_places.cuh"
#include "kernels/cuda/class_sample.cuh"
#include "kernels/cuda/class_sink.cuh"

namespace sparcl::test {
namespace {

using codec::ClassTable;

ClassTable chosen_table(const Weights& base, const Weights& target) {
  codec::ClassSample sample;
  sample.add(reinterpret_cast<const std::byte*>(base.data()),
             reinterpret_cast<const std::byte*>(target.data()), base.size());
  return codec::choose_classes(sample, base.size()).table;
}

// One that nobody would choose.
ClassTable odd_table(unsigned classes, bool all, std::uint8_t exponent) {
  ClassTable table;
  table.cut.count = classes;
  for (unsigned c = 0; c < classes; ++c) {
    table.cut.lowest[c] = static_cast<std::uint8_t>(c + 1 == classes ? 0 : 125 - 2 * c);
    table.rows[c] = {c % 2 == 0 ? all : !all,
                     exponent,
                     {static_cast<std::uint8_t>(40 + c)},
                     {static_cast<std::uint8_t>(30 + c)},
                     {100}};
  }
  return table;
}

// The blocks of an array, all superblocks in mode classes; in memory of exactly their size.
struct ClassContents {
  std::vector<BlockContent> blocks;
  std::vector<std::byte> gathered;
  ClassTable table;

  void add(std::span<const std::byte> content, std::size_t superblock_blocks) {
    blocks.push_back(
        {gathered.size(), static_cast<std::uint32_t>(content.size()), kernels::kClassesBlock});
    for (std::size_t i = 1; i < superblock_blocks; ++i)
      blocks.push_back({0, 0, kernels::kClassesRest});
    const auto* const own = reinterpret_cast<const std::byte*>(&table);
    gathered.insert(gathered.end(), own, own + sizeof table);
    gathered.resize(gathered.size() + kernels::kClassTableBytes - sizeof table);
    gathered.insert(gathered.end(), content.begin(), content.end());
    gathered.resize(aligned_content(gathered.size()), std::byte{0xee});
  }
  void add_unchanged(std::size_t superblock_blocks) {
    for (std::size_t i = 0; i < superblock_blocks; ++i) blocks.push_back({0, 0, kernels::kNoBlock});
  }
};
static_assert(sizeof(ClassTable) <= kernels::kClassTableBytes);

constexpr std::size_t kSuperElements = kernels::kSuperBlocks * kBlockElements;

std::size_t elements_from(const Weights& words, std::size_t first, std::size_t most) {
  return std::min(most, words.size() - first);
}

// Of elements of a superblock from `first` on; empty where nothing changes.
std::vector<std::byte> encoded_superblock(const ClassTable& table, const Weights& base,
                                          const Weights& target, std::size_t first) {
  codec::ClassEncoder encoder(kernels::cpu_kernels());
  const std::size_t all = elements_from(base, first, kSuperElements);
  encoder.begin(table, static_cast<std::uint32_t>(all));
  std::vector<std::vector<std::byte>> memory;
  for (std::size_t at = first; at < first + all; at += kBlockElements) {
    const auto count = static_cast<std::uint32_t>(elements_from(base, at, kBlockElements));
    const codec::Piece piece{0, 0, count, 0};
    const std::byte* const olds = reinterpret_cast<const std::byte*>(base.data() + at);
    const std::byte* const news = reinterpret_cast<const std::byte*>(target.data() + at);
    const codec::BlockShape shape{DataType::kBfloat16, count};
    auto& own = memory.emplace_back(3 * (2 * kBlockElements + 1024));
    const std::size_t each = own.size() / 3 / 64 * 64;
    encoder.scan(
        {shape, {&piece, 1}, {&olds, 1}}, {shape, {&piece, 1}, {&news, 1}}, {&piece, 1},
        {reinterpret_cast<std::uint16_t*>(own.data()), own.data() + each, own.data() + 2 * each});
  }
  std::vector<std::byte> content(encoder.plan());
  std::vector<std::byte> room(content.size() + 64);
  if (content.empty()) return content;
  encoder.write(room.data());
  std::copy_n(room.begin(), content.size(), content.begin());
  return content;
}

ClassContents contents_of(const ClassTable& table, const Weights& base, const Weights& target) {
  ClassContents contents;
  contents.table = table;
  for (std::size_t first = 0; first < base.size(); first += kSuperElements) {
    const std::vector<std::byte> content = encoded_superblock(table, base, target, first);
    const std::size_t blocks =
        (elements_from(base, first, kSuperElements) + kBlockElements - 1) / kBlockElements;
    content.empty() ? contents.add_unchanged(blocks) : contents.add(content, blocks);
  }
  return contents;
}

// A launch; where there is a meanwhile one block of threads more, which does that again and again.
using Meanwhile = std::function<void()>;
template <class Shared, class Routine>
void launch_beside(const Meanwhile& meanwhile, unsigned grid, std::uint64_t seed,
                   const Routine& routine) {
  constexpr int kTimes = 60;
  emulated::launch<Shared>(grid + (meanwhile ? 1 : 0), kThreads, seed, [&](Shared& shared) {
    if (blockIdx.x < grid) return routine(shared);
    for (int time = 0; threadIdx.x == 0 && time < kTimes; ++time) {
      meanwhile();
      emulated::running->yield();
    }
  });
}

// The three launches.
DecodedArray<std::uint16_t> decoded(const ClassContents& contents, const Weights& held,
                                    std::uint64_t capacity, std::uint64_t seed,
                                    const Meanwhile& meanwhile = {}) {
  DecodedArray<std::uint16_t> found = emulated_decode<std::uint16_t>(
      contents.gathered, contents.blocks, held, capacity, true, seed);
  const std::uint64_t blocks = block_count(held.size());
  std::uint32_t next_block = 0;
  std::vector<TileState> states(blocks * kernels::kMaxClasses);
  Guarded<std::uint32_t> of_classes(blocks * kernels::kMaxClasses), marks(capacity),
      ranks(capacity), listed(capacity);
  const ClassDecodeWork work{contents.gathered.data(),
                             contents.blocks.data(),
                             held.data(),
                             held.size(),
                             found.device(),
                             found.hashes.data(),
                             found.errors.data(),
                             &found.refused,
                             &next_block,
                             states.data(),
                             of_classes.data(),
                             marks.data(),
                             ranks.data(),
                             listed.data()};
  const auto grid = static_cast<unsigned>(blocks);
  emulated::launch<ClassListShared>(grid, kThreads, seed,
                                    [&](ClassListShared& shared) { read_classes(shared, work); });
  launch_beside<ClassPlaceShared>(meanwhile, grid, seed + 1,
                                  [&](ClassPlaceShared& shared) { place_classes(shared, work); });
  for (Guarded<std::uint32_t>* memory : {&of_classes, &marks, &ranks, &listed})
    EXPECT_TRUE(memory->is_untouched_around());
  EXPECT_TRUE(found.positions.is_untouched_around());
  EXPECT_TRUE(found.old_values.is_untouched_around());
  EXPECT_TRUE(found.new_values.is_untouched_around());
  return found;
}

// What the codec makes of a superblock; no blocks where it refuses it.
struct FoundBlock {
  std::vector<std::uint16_t> positions, old_values, new_values;
};
struct CodecFinds {
  const char* wrong = nullptr;
  bool fits = false;
  std::uint32_t changes = 0;
  std::vector<FoundBlock> blocks;
};

CodecFinds found_by_codec(const ClassTable& table, std::span<const std::byte> content,
                          const Weights& held, std::size_t first) {
  codec::ClassDecoder decoder(kernels::cpu_kernels());
  const std::size_t all = elements_from(held, first, kSuperElements);
  std::vector<std::byte> payload(content.begin(), content.end());
  payload.resize(content.size() + kernels::kBitSlackBytes);
  CodecFinds finds;
  finds.wrong =
      decoder.read(table, static_cast<std::uint32_t>(all), {payload.data(), content.size()});
  if (finds.wrong != nullptr) return finds;
  finds.changes = decoder.changes();
  for (std::size_t at = first; at < first + all; at += kBlockElements) {
    const auto count = static_cast<std::uint32_t>(elements_from(held, at, kBlockElements));
    const codec::Piece piece{0, 0, count, 0};
    const std::byte* const own = reinterpret_cast<const std::byte*>(held.data() + at);
    codec::DecodedBlock block;
    decoder.next_block({{DataType::kBfloat16, count}, {&piece, 1}, {&own, 1}}, block);
    FoundBlock& found = finds.blocks.emplace_back();
    for (std::size_t i = 0; i < block.count; ++i) {
      found.positions.push_back(block.changed()[i]);
      found.old_values.push_back(held[at + found.positions.back()]);
    }
    found.new_values.resize(block.count);
    kernels::cpu_kernels()
        .order_of(DataType::kBfloat16)
        .add_steps(reinterpret_cast<const std::byte*>(found.old_values.data()), block.values.data(),
                   block.count, reinterpret_cast<std::byte*>(found.new_values.data()));
  }
  finds.fits = decoder.fits();
  return finds;
}

void expect_same_block(DecodedArray<std::uint16_t>& found, std::size_t number,
                       const FoundBlock& block) {
  const std::uint64_t start = found.starts[number], count = found.starts[number + 1] - start;
  ASSERT_EQ(count, block.positions.size()) << number;
  EXPECT_TRUE(
      std::equal(block.positions.begin(), block.positions.end(), found.positions.data() + start))
      << number;
  EXPECT_TRUE(
      std::equal(block.old_values.begin(), block.old_values.end(), found.old_values.data() + start))
      << number;
  EXPECT_TRUE(
      std::equal(block.new_values.begin(), block.new_values.end(), found.new_values.data() + start))
      << number;
  const kernels::ChangeHashes hashes =
      kernels::reference_kernels()
          .of(DataType::kBfloat16)
          .hash_changes(block.positions.data(), block.positions.size(),
                        reinterpret_cast<const std::byte*>(block.old_values.data()),
                        reinterpret_cast<const std::byte*>(block.new_values.data()));
  EXPECT_TRUE(are_same(found.hashes[number], hashes)) << number;
}

struct Outcome {
  std::size_t refused = 0, unfit = 0, read = 0;
};

// Every superblock against the codec's decoder.
Outcome check(const ClassContents& contents, const Weights& held, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << held.size() << " elements, seed " << seed);
  std::vector<CodecFinds> wanted;
  std::uint64_t capacity = 0;
  for (std::size_t b = 0; b < contents.blocks.size(); b += kernels::kSuperBlocks) {
    const BlockContent& content = contents.blocks[b];
    wanted.emplace_back();
    if (content.mode != kernels::kClassesBlock) continue;
    const std::byte* const bytes =
        contents.gathered.data() + content.offset + kernels::kClassTableBytes;
    wanted.back() =
        found_by_codec(contents.table, {bytes, content.bytes}, held, b * kBlockElements);
    capacity += wanted.back().wrong != nullptr ? kSuperElements : wanted.back().changes;
  }
  DecodedArray<std::uint16_t> found = decoded(contents, held, capacity, seed);
  Outcome outcome;
  for (std::size_t s = 0; s < wanted.size(); ++s) {
    const std::size_t first = s * kernels::kSuperBlocks,
                      end = std::min(first + kernels::kSuperBlocks, contents.blocks.size());
    if (contents.blocks[first].mode != kernels::kClassesBlock) {
      for (std::size_t b = first; b < end; ++b) EXPECT_EQ(found.starts[b], found.starts[b + 1]);
      continue;
    }
    EXPECT_EQ(found.errors[first] != BlockError::kNone && found.errors[first] != BlockError::kBase,
              wanted[s].wrong != nullptr)
        << "superblock " << s << ": " << (wanted[s].wrong != nullptr ? wanted[s].wrong : "fine")
        << ", error " << static_cast<unsigned>(found.errors[first]);
    if (wanted[s].wrong != nullptr) {
      ++outcome.refused;
      continue;
    }
    EXPECT_EQ(found.errors[end - 1] == BlockError::kBase, !wanted[s].fits) << "superblock " << s;
    if (!wanted[s].fits) {
      ++outcome.unfit;
      continue;
    }
    ++outcome.read;
    for (std::size_t b = first; b < end; ++b)
      expect_same_block(found, b, wanted[s].blocks[b - first]);
  }
  EXPECT_EQ(found.refused, outcome.refused + outcome.unfit);
  return outcome;
}

TEST(ClassRoutine, FindsWhatTheCodecFinds) {
  std::uint64_t seed = 0;
  for (const std::size_t count :
       {1UL, 7UL, 64UL, 65UL, 3'001UL, 70'000UL, by_tier(1, 2) * kSuperElements + 12'345}) {
    for (const float size : {1e-5f, 3e-4f, 3e-2f}) {
      const Weights base = normal_weights(count, ++seed), target = stepped(base, size, seed);
      const ClassTable table = chosen_table(base, target);
      const ClassContents contents = contents_of(table, base, target);
      EXPECT_EQ(check(contents, base, seed).refused, 0U);
      check(contents, target, seed);  // what is held is no base
      EXPECT_TRUE(count <= 3'001 || table.cut.count > 1);
    }
  }
}

// Any pattern of bits, infinities and NaN among them, in tables that nobody would choose.
TEST(ClassRoutine, AnyValuesAndTables) {
  std::uint64_t seed = 100;
  for (const unsigned classes : {1U, 2U, 11U, 12U}) {
    for (const bool all : {false, true}) {
      for (const Change kind : {Change::kMostlyOne, Change::kSmall, Change::kAny}) {
        const std::vector<Density> densities{{20, kind}, {0}, {1, kind}, {300, kind}, {0}};
        const TwoArrays<std::uint16_t> arrays(kSuperElements + 70'001, densities, true, ++seed);
        const ClassContents contents =
            contents_of(odd_table(classes, all, static_cast<std::uint8_t>(seed % 8)), arrays.base,
                        arrays.target);
        EXPECT_GT(check(contents, arrays.base, seed).read, 0U);
      }
    }
  }
}

TEST(ClassRoutine, WholeSuperblocks) {
  Weights base = normal_weights(kSuperElements, 7), target = base;
  for (std::uint16_t& word : target) word ^= 1;
  EXPECT_EQ(check(contents_of(chosen_table(base, target), base, target), base, 7).read, 1U);
  std::ranges::fill(base, std::uint16_t{0x3f80});  // all in one class, whose count is 2^18
  target = base;
  target.front() = target.back() = 0x3f81;
  EXPECT_EQ(check(contents_of(odd_table(3, false, 0), base, target), base, 8).read, 1U);
}

// Contents damaged in many ways: what one refuses the other does, and what both read is the same.
TEST(ClassRoutine, RefusesWhatTheCodecRefuses) {
  std::mt19937_64 random(9);
  Outcome all;
  for (std::uint64_t seed = 200; seed < 200 + by_tier(6UL, 12UL); ++seed) {
    const std::size_t count = seed % 3 == 0 ? 3'000 : 90'000;
    const Weights base = normal_weights(count, seed),
                  target = stepped(base, seed % 2 == 0 ? 1e-4f : 1e-2f, seed);
    const ClassTable table = seed % 4 == 0 ? odd_table(12, false, 3) : chosen_table(base, target);
    const std::vector<std::byte> good = encoded_superblock(table, base, target, 0);
    const std::size_t super_blocks = block_count(count);
    for (int copy = 0; copy < 12; ++copy) {
      ClassContents bad;
      bad.table = table;
      std::vector<std::byte> content = good;
      for (std::uint64_t edits = 1 + random() % 2; edits > 0 && !content.empty(); --edits) {
        const std::size_t at =
            random() %
            (random() % 2 == 0 ? std::min<std::size_t>(content.size(), 24) : content.size());
        if (random() % 6 == 0) {
          content.resize(at);
        } else if (random() % 6 == 0) {
          content.insert(content.begin() + static_cast<std::ptrdiff_t>(at),
                         static_cast<std::byte>(random()));
        } else {
          content[at] ^= static_cast<std::byte>(1 << random() % 8);
        }
      }
      bad.add(content, super_blocks);
      const Outcome outcome = check(bad, base, seed);
      all.refused += outcome.refused;
      all.unfit += outcome.unfit;
      all.read += outcome.read;
    }
  }
  EXPECT_GT(all.refused, by_tier(50U / 3, 50U));
  EXPECT_GT(all.read, 5U);
  EXPECT_GT(all.unfit + all.read, 10U);
}

// What the caller gives is no superblock.
TEST(ClassRoutine, PlacesThatAreNoSuperblock) {
  const Weights base = normal_weights(6 * kBlockElements, 5), target = stepped(base, 1e-4f, 5);
  const ClassTable table = chosen_table(base, target);
  const auto errors_with = [&](std::size_t block, std::uint32_t mode) {
    ClassContents contents = contents_of(table, base, target);
    contents.blocks[block].mode = mode;
    DecodedArray<std::uint16_t> found = decoded(contents, base, base.size(), 1);
    EXPECT_GT(found.refused, 0U);
    return found.errors;
  };
  EXPECT_EQ(errors_with(2, kernels::kNoBlock)[0], BlockError::kNotHere);
  EXPECT_EQ(errors_with(0, kernels::kNoBlock)[1], BlockError::kNotHere);
  EXPECT_EQ(errors_with(4, kernels::kClassesRest)[4], BlockError::kNotHere)
      << "a superblock of five blocks";
  ClassContents contents = contents_of(table, base, target);
  contents.blocks[0].bytes += static_cast<std::uint32_t>(contents.gathered.size());
  EXPECT_EQ(decoded(contents, base, base.size(), 2).errors[0], BlockError::kNotHere);
  contents = contents_of(table, base, target);
  EXPECT_EQ(decoded(contents, base, 100, 3).errors[0], BlockError::kNoRoom);
}

// What encoding leaves, classes first, then the blocks that are left.
struct EncodedClasses {
  EncodedArray array;
  std::uint64_t classes_end = 0;
};

// What may happen to changes' classes and ranks, in bytes 0 and 1 to 3.
using Spoil = std::function<void(std::span<std::uint32_t> keys)>;

EncodedClasses encoded_with(const ClassTable& table, std::uint32_t table_bytes,
                            const TwoArrays<std::uint16_t>& arrays, std::uint32_t first_block,
                            std::uint32_t end_block, std::uint64_t capacity, std::uint64_t seed,
                            const Spoil& spoil = {}) {
  ListedChanges<std::uint16_t> changes(arrays);
  const std::uint64_t count = arrays.base.size(), blocks = block_count(count);
  EncodedClasses encoded{
      {Guarded<std::byte>(kernels::max_coded_bytes(changes.positions.size(), blocks, 2)),
       std::vector<BlockContent>(blocks + 1, {0, 0, 0xffffffff}),
       std::vector<DeviceChangeHashes>(blocks)}};
  std::vector<TileState> states(blocks), block_states(blocks);
  std::uint32_t next_super = 0, next_block = 0;
  Guarded<std::uint32_t> elements(blocks * kernels::kMaxClasses), sections(blocks), keys(capacity),
      ranks(capacity);
  Guarded<std::uint16_t> steps(capacity), listed(capacity), places(capacity), longs(capacity);
  const ClassEncodeWork work{changes.device(),
                             capacity,
                             arrays.base.data(),
                             count,
                             table,
                             table_bytes,
                             first_block,
                             end_block,
                             encoded.array.contents.data(),
                             encoded.array.blocks.data(),
                             encoded.array.hashes.data(),
                             &encoded.classes_end,
                             states.data(),
                             &next_super,
                             elements.data(),
                             sections.data(),
                             keys.data(),
                             ranks.data(),
                             steps.data(),
                             listed.data()};
  emulated::launch<ClassRankShared>(end_block - first_block, kThreads, seed,
                                    [&](ClassRankShared& shared) { rank_changes(shared, work); });
  if (spoil) spoil({keys.data(), capacity});
  emulated::launch<ClassSinkShared>(static_cast<unsigned>(super_count(work)), kThreads, seed + 1,
                                    [&](ClassSinkShared& shared) { encode_classes(shared, work); });
  const EncodeWork rest{changes.device(),
                        capacity,
                        arrays.target.data(),
                        count,
                        true,
                        encoded.array.contents.data(),
                        encoded.array.blocks.data(),
                        encoded.array.hashes.data(),
                        &encoded.classes_end,
                        block_states.data(),
                        &next_block,
                        listed.data(),
                        places.data(),
                        longs.data()};
  emulated::launch<EncodeShared>(
      static_cast<unsigned>(blocks), kThreads, seed + 2,
      [&](EncodeShared& shared) { encode_block<std::uint16_t>(shared, rest); });
  for (Guarded<std::uint32_t>* memory : {&elements, &sections, &keys, &ranks})
    EXPECT_TRUE(memory->is_untouched_around());
  EXPECT_TRUE(steps.is_untouched_around() && listed.is_untouched_around());
  EXPECT_TRUE(encoded.array.contents.is_untouched_around());
  return encoded;
}

TwoArrays<std::uint16_t> two_arrays(Weights base, Weights target) {
  TwoArrays<std::uint16_t> arrays(0, {}, true, 0);
  arrays.base = std::move(base);
  arrays.target = std::move(target);
  return arrays;
}

// Each superblock: the codec's bytes in classes, where these are fewer than those of its blocks
// without, which then are the others'.
void expect_the_codecs(const ClassTable& table, std::uint32_t table_bytes,
                       const TwoArrays<std::uint16_t>& arrays, std::uint64_t seed,
                       std::size_t* in_classes) {
  SCOPED_TRACE(testing::Message() << arrays.base.size() << " elements, seed " << seed);
  ListedChanges<std::uint16_t> changes(arrays);
  const std::uint64_t all = changes.positions.size();
  EncodedArray without = emulated_encode(arrays, changes, all, true, seed);
  const auto blocks = static_cast<std::uint32_t>(block_count(arrays.base.size()));
  EncodedClasses found = encoded_with(table, table_bytes, arrays, 0, blocks, all, seed);
  std::uint64_t bytes_of_classes = 0;
  for (std::uint32_t first = 0; first < blocks; first += kernels::kSuperBlocks) {
    const std::uint32_t end = std::min(first + kernels::kSuperBlocks, blocks);
    const std::vector<std::byte> wanted =
        encoded_superblock(table, arrays.base, arrays.target, first * kBlockElements);
    std::size_t as_blocks = 0;
    for (std::uint32_t b = first; b < end; ++b) {
      const BlockContent& content = without.blocks[b];
      if (content.mode != kernels::kNoBlock)
        as_blocks += section_bytes(content.bytes + (content.mode == kernels::kDenseBlock ? 0 : 2));
    }
    const std::uint64_t count = changes.starts[end] - changes.starts[first];
    const bool is_best =
        !wanted.empty() && count <= kMaxClassChanges &&
        section_bytes(static_cast<std::uint32_t>(wanted.size()) + 2) + table_bytes < as_blocks;
    *in_classes += is_best ? 1 : 0;
    ASSERT_EQ(found.array.blocks[first].mode == kernels::kClassesBlock, is_best)
        << "superblock at " << first;
    for (std::uint32_t b = first; b < end; ++b) {
      const BlockContent& content = found.array.blocks[b];
      const bool is_same =
          std::memcmp(&found.array.hashes[b], &without.hashes[b], sizeof(DeviceChangeHashes)) == 0;
      EXPECT_TRUE(is_same || without.blocks[b].mode == kernels::kDenseBlock) << b;
      if (is_best) {
        EXPECT_EQ(content.mode, b == first ? kernels::kClassesBlock : kernels::kClassesRest);
        continue;
      }
      ASSERT_EQ(content.mode, without.blocks[b].mode) << b;
      EXPECT_TRUE(std::ranges::equal(found.array.content(b), without.content(b))) << b;
    }
    if (!is_best) continue;
    ASSERT_EQ(found.array.blocks[first].bytes, wanted.size()) << first;
    EXPECT_TRUE(std::ranges::equal(found.array.content(first), wanted)) << first;
    bytes_of_classes += aligned_content(wanted.size());
  }
  EXPECT_EQ(found.classes_end, bytes_of_classes);
}

TEST(ClassRoutine, WritesWhatTheCodecWrites) {
  std::size_t in_classes = 0;
  std::uint64_t seed = 300;
  for (const std::size_t count : {1UL, 700UL, 66'000UL, by_tier(1, 3) * kSuperElements + 100'001}) {
    for (const float size : {3e-7f, 1e-6f, 1e-5f, 3e-2f}) {
      const Weights base = normal_weights(count, ++seed), target = stepped(base, size, seed);
      const ClassTable table = chosen_table(base, target);
      expect_the_codecs(table, 10, two_arrays(base, target), seed, &in_classes);
    }
  }
  EXPECT_GT(in_classes, by_tier(4U, 8U));
}

TEST(ClassRoutine, WritesAnyValuesInAnyTables) {
  std::size_t in_classes = 0;
  std::uint64_t seed = 400;
  for (const unsigned classes : {1U, 12U, 2U, 11U}) {
    if (seed > 400 + by_tier(6U, 24U)) break;
    for (const bool all : {false, true}) {
      for (const Change kind : {Change::kMostlyOne, Change::kSmall, Change::kAny}) {
        const std::vector<Density> densities{{20, kind}, {0},        {1, kind},  {30, kind},
                                             {0},        {0},        {0},        {0},
                                             {62, kind}, {61, kind}, {63, kind}, {62, kind}};
        TwoArrays<std::uint16_t> arrays(3 * kSuperElements, densities, true, ++seed);
        // Most of the elements in one class, so that classes pay.
        for (std::size_t i = 0; i < arrays.base.size(); ++i) {
          if (arrays.base[i] == arrays.target[i])
            arrays.base[i] = arrays.target[i] = static_cast<std::uint16_t>(0x7f80 | (i % 64));
        }
        expect_the_codecs(odd_table(classes, all, static_cast<std::uint8_t>(seed % 8)), 0, arrays,
                          seed, &in_classes);
      }
    }
  }
  EXPECT_GT(in_classes, by_tier(2U, 10U));
}

// Superblocks that are not whole, and blocks that had no room, are what they are without.
TEST(ClassRoutine, PartsOfSuperblocksAreLeft) {
  const Weights base = normal_weights(11 * kBlockElements, 501), target = stepped(base, 1e-6f, 501);
  const ClassTable table = chosen_table(base, target);
  const TwoArrays<std::uint16_t> arrays = two_arrays(base, target);
  ListedChanges<std::uint16_t> changes(arrays);
  EncodedClasses found = encoded_with(table, 0, arrays, 3, 7, changes.positions.size(), 1);
  for (std::uint32_t b = 0; b < 11; ++b) {
    const std::uint32_t wanted = b == 3           ? kernels::kClassesBlock
                                 : b > 3 && b < 7 ? kernels::kClassesRest
                                                  : kernels::kFlatBlock;
    EXPECT_EQ(found.array.blocks[b].mode, wanted) << b;
  }
  found = encoded_with(table, 0, arrays, 0, 11, changes.starts[6] + 5, 2);
  EXPECT_EQ(found.array.blocks[0].mode, kernels::kClassesBlock);
  for (std::uint32_t b = 4; b < 11; ++b)
    EXPECT_EQ(found.array.blocks[b].mode, b < 6 ? kernels::kFlatBlock : kernels::kLostBlock) << b;
}

// An array that somebody writes to while it is looked at: nothing outside of it is named.
TEST(ClassRoutine, AnArrayThatIsWrittenToMeanwhile) {
  std::size_t read = 0, refused = 0;
  for (std::uint64_t seed = 602; seed < 642; ++seed) {
    const std::size_t count = seed % 2 == 0 ? 70'005 : 5;
    const Weights base = normal_weights(count, seed);
    Weights target = stepped(base, 1e-6f, seed);
    if (count == 5) target[0] = base[0] ^ 1, target[3] = base[3] ^ 1;
    const ClassTable table = odd_table(2, true, 0);
    std::mt19937_64 random(seed);
    Weights held = base;
    const auto write = [&] {
      const std::size_t first = random() % count, most = random() % (count - first) + 1;
      std::ranges::fill(std::span(held).subspan(first, most),
                        static_cast<std::uint16_t>(random() % 2 == 0 ? 0x3f80 : 0));
    };
    DecodedArray<std::uint16_t> found =
        decoded(contents_of(table, base, target), held, count, seed, write);
    (found.refused == 0 ? read : refused) += 1;
    for (std::size_t b = 0; found.refused == 0 && b < block_count(count); ++b) {
      const std::size_t elements = std::min(count - b * kBlockElements, kBlockElements);
      for (std::uint64_t i = found.starts[b]; i < found.starts[b + 1]; ++i) {
        ASSERT_LT(found.positions.data()[i], elements) << "seed " << seed;
        ASSERT_TRUE(i == found.starts[b] ||
                    found.positions.data()[i - 1] < found.positions.data()[i])
            << "seed " << seed;
      }
    }
  }
  EXPECT_GT(read, 0U);
  EXPECT_GT(refused, 0U);
}

// Ranks as they come of a base that somebody writes to meanwhile: such a superblock is coded block
// by block.
TEST(ClassRoutine, RanksThatAreNone) {
  const Weights base = normal_weights(4 * kBlockElements, 650), target = stepped(base, 1e-6f, 650);
  const ClassTable table = chosen_table(base, target);
  const TwoArrays<std::uint16_t> arrays = two_arrays(base, target);
  const std::uint64_t changes = ListedChanges<std::uint16_t>(arrays).positions.size();
  const auto mode_with = [&](const Spoil& spoil) {
    return encoded_with(table, 0, arrays, 0, 4, changes, 1, spoil).array.blocks[0].mode;
  };
  EXPECT_EQ(mode_with([](std::span<std::uint32_t>) {}), kernels::kClassesBlock);
  const auto next_of_class = [](std::span<std::uint32_t> keys) {
    return std::find_if(keys.begin() + 1, keys.end(),
                        [&](std::uint32_t key) { return (key & 0xff) == (keys[0] & 0xff); });
  };
  EXPECT_EQ(mode_with([&](auto keys) { std::swap(keys[0], *next_of_class(keys)); }),
            kernels::kFlatBlock)
      << "they go down";
  EXPECT_EQ(mode_with([&](auto keys) { keys[0] = *next_of_class(keys); }), kernels::kFlatBlock)
      << "they stay";
  EXPECT_EQ(mode_with([](auto keys) { keys.back() |= 0xffff00; }), kernels::kFlatBlock)
      << "there are not so many elements";
}

TEST(ClassRoutine, SamplesWhatTheCodecSamples) {
  const Weights base = normal_weights(5'000, 600);
  Weights target = stepped(base, 1e-3f, 600);
  target[7] ^= 0x8000;
  target[8] = 0x7fc0;
  codec::ClassSample wanted;
  wanted.add(reinterpret_cast<const std::byte*>(base.data()),
             reinterpret_cast<const std::byte*>(target.data()), 4'096);
  const std::vector<kernels::ClassSampleChunk> chunks{
      {base.data(), target.data(), 2'048, 1},
      {base.data() + 2'048, target.data() + 2'048, 2'000, 1},
      {base.data() + 4'048, target.data() + 4'048, 48, 1}};
  std::vector<kernels::ClassSampleCounts> counts(2);
  const ClassSampleWork work{chunks.data(), chunks.size(), counts.data()};
  emulated::launch<ClassSampleShared>(
      3, kThreads, 1, [&](ClassSampleShared& shared) { sample_classes(shared, work); });
  for (unsigned key = 0; key < 256; ++key) {
    const codec::ClassSample::Key own = wanted.key(key);
    EXPECT_EQ(counts[1].elements[key], own.elements);
    EXPECT_TRUE(std::ranges::equal(counts[1].all[key], own.all));
    EXPECT_TRUE(std::ranges::equal(counts[1].listed[key], own.listed));
    EXPECT_EQ(counts[0].elements[key], 0U);
  }
}

}  // namespace
}  // namespace sparcl::test
