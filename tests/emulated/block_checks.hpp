#pragma once
// What the routines that code blocks make of arrays and contents, against the codec.

#include "tests/emulated/emulated_blocks.hpp"

namespace sparcl::test {

// Every block is the codec's. Returns which modes came up, as bits.
template <class Types>
unsigned check_encoded(const TwoArrays<typename Types::Word>& arrays, std::uint64_t seed) {
  using Word = typename Types::Word;
  constexpr DataType kType = Types::kDataType;
  const bool is_float = info(kType).is_float;
  const std::size_t count = arrays.base.size();
  ListedChanges<Word> changes(arrays);
  EncodedArray encoded = emulated_encode(arrays, changes, changes.positions.size(), is_float, seed);
  std::uint64_t offset = 0;
  unsigned modes = 0;
  for (std::size_t block = 0; block < block_count(count); ++block) {
    const std::size_t first = block * kBlockElements;
    const auto* const base = reinterpret_cast<const std::byte*>(arrays.base.data() + first);
    CodecBlock wanted(
        kType, base, reinterpret_cast<const std::byte*>(arrays.target.data() + first),
        static_cast<std::uint32_t>(std::min<std::size_t>(kBlockElements, count - first)));
    const BlockContent& found = encoded.blocks[block];
    EXPECT_EQ(found.offset, offset) << "block " << block;
    if (wanted.count() == 0) {
      EXPECT_EQ(found.mode, kernels::kNoBlock);
      EXPECT_EQ(found.bytes, 0U);
      EXPECT_TRUE(are_same(encoded.hashes[block], {}));
      continue;
    }
    const codec::BlockMode& mode = wanted.best();
    EXPECT_EQ(found.mode, mode.id) << "block " << block << ", " << wanted.count() << " changes";
    if (found.mode != mode.id) continue;
    modes |= 1U << mode.id;
    EXPECT_TRUE(std::ranges::equal(encoded.content(block), wanted.content(mode)))
        << "block " << block << ", " << wanted.count() << " changes, mode " << mode.name;
    EXPECT_TRUE(are_same(encoded.hashes[block], wanted.hashes(mode, base))) << "block " << block;
    offset = (offset + found.bytes + 15) / 16 * 16;
    for (std::uint64_t i = found.offset + found.bytes; i < offset; ++i)
      EXPECT_EQ(encoded.contents[i], std::byte{0}) << i;
  }
  EXPECT_EQ(encoded.blocks.back().offset, offset);
  return modes;
}

// Contents as a receiver lays them out: in memory of exactly their size, so that a sanitizer sees
// each byte that is read beside it.
struct Contents {
  std::vector<BlockContent> blocks;
  std::vector<std::byte> gathered;

  void add(std::uint32_t mode, std::span<const std::byte> content) {
    blocks.push_back({gathered.size(), static_cast<std::uint32_t>(content.size()), mode});
    gathered.insert(gathered.end(), content.begin(), content.end());
    gathered.resize(aligned_content(gathered.size()),
                    std::byte{0xee});  // what lies between contents is of no matter
  }
};

// What the codec makes of a content.
template <class Word>
struct CodecChanges {
  const char* wrong = nullptr;
  std::vector<std::uint16_t> positions;
  std::vector<Word> old_values, new_values;
};

template <class Word>
CodecChanges<Word> decoded_by_codec(DataType type, std::uint32_t mode,
                                    std::span<const std::byte> content, const Word* held,
                                    std::uint32_t elements) {
  std::vector<std::byte> payload(content.begin(), content.end());
  payload.resize(content.size() + kernels::kBitSlackBytes);
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  codec::DecodedBlock block;
  CodecChanges<Word> found;
  found.wrong = codec::find_block_mode(mode)->decode(
      {type, elements}, {payload.data(), content.size()}, kernels, block);
  if (found.wrong != nullptr) return found;
  found.new_values.resize(block.count);
  for (std::uint32_t i = 0; i < block.count; ++i) {
    found.positions.push_back(block.kind == codec::DecodedKind::kWhole
                                  ? static_cast<std::uint16_t>(i)
                                  : block.changed()[i]);
    found.old_values.push_back(held[found.positions.back()]);
  }
  auto* const news = reinterpret_cast<std::byte*>(found.new_values.data());
  const auto* const olds = reinterpret_cast<const std::byte*>(found.old_values.data());
  if (block.kind == codec::DecodedKind::kSteps)
    kernels.order_of(type).add_steps(olds, block.values.data(), block.count, news);
  else
    std::memcpy(news, block.kind == codec::DecodedKind::kWhole ? block.whole : block.values.data(),
                block.count * sizeof(Word));
  return found;
}

// Every block against the codec's decoder; returns how many that refuses.
template <class Types>
std::size_t check_decoded(const Contents& contents, const std::vector<typename Types::Word>& held,
                          std::uint64_t seed) {
  using Word = typename Types::Word;
  SCOPED_TRACE(testing::Message() << held.size() << " elements, seed " << seed);
  std::vector<CodecChanges<Word>> wanted;
  std::uint64_t capacity = 0;
  std::size_t refused = 0;
  for (std::size_t b = 0; b < contents.blocks.size(); ++b) {
    const BlockContent& content = contents.blocks[b];
    const auto elements = static_cast<std::uint32_t>(
        std::min<std::size_t>(kBlockElements, held.size() - b * kBlockElements));
    wanted.push_back({});
    if (content.mode == kernels::kNoBlock) continue;
    wanted.back() = decoded_by_codec<Word>(
        Types::kDataType, content.mode, {contents.gathered.data() + content.offset, content.bytes},
        held.data() + b * kBlockElements, elements);
    if (wanted.back().wrong != nullptr) ++refused;
    capacity += elements;  // a block that turns out to be wrong late has as many as it says
  }
  DecodedArray<Word> found = emulated_decode<Word>(contents.gathered, contents.blocks, held,
                                                   capacity, info(Types::kDataType).is_float, seed);
  EXPECT_EQ(found.refused, refused);
  for (std::size_t b = 0; b < wanted.size(); ++b) {
    const CodecChanges<Word>& block = wanted[b];
    EXPECT_EQ(found.errors[b] != BlockError::kNone, block.wrong != nullptr)
        << "block " << b << ": " << (block.wrong != nullptr ? block.wrong : "fine") << ", error "
        << static_cast<unsigned>(found.errors[b]);
    if (block.wrong != nullptr || found.errors[b] != BlockError::kNone) continue;
    const std::uint64_t first = found.starts[b], count = found.starts[b + 1] - first;
    EXPECT_EQ(count, block.positions.size());
    if (count != block.positions.size()) continue;
    EXPECT_TRUE(
        std::equal(block.positions.begin(), block.positions.end(), found.positions.data() + first))
        << b;
    EXPECT_TRUE(std::equal(block.old_values.begin(), block.old_values.end(),
                           found.old_values.data() + first))
        << b;
    EXPECT_TRUE(std::equal(block.new_values.begin(), block.new_values.end(),
                           found.new_values.data() + first))
        << b;
    const kernels::ChangeHashes hashes =
        kernels::reference_kernels()
            .of(Types::kDataType)
            .hash_changes(block.positions.data(), block.positions.size(),
                          reinterpret_cast<const std::byte*>(block.old_values.data()),
                          reinterpret_cast<const std::byte*>(block.new_values.data()));
    EXPECT_TRUE(are_same(found.hashes[b], hashes)) << b;
  }
  return refused;
}

// All blocks of two arrays in one mode.
template <class Types>
Contents contents_of(const TwoArrays<typename Types::Word>& arrays, const codec::BlockMode& mode) {
  Contents contents;
  for (std::size_t first = 0; first < arrays.base.size(); first += kBlockElements) {
    CodecBlock block(Types::kDataType,
                     reinterpret_cast<const std::byte*>(arrays.base.data() + first),
                     reinterpret_cast<const std::byte*>(arrays.target.data() + first),
                     static_cast<std::uint32_t>(
                         std::min<std::size_t>(kBlockElements, arrays.base.size() - first)));
    block.force();
    if (block.count() == 0)
      contents.add(kernels::kNoBlock, {});
    else
      contents.add(mode.id, block.content(mode));
  }
  return contents;
}

inline void damage(std::vector<std::byte>& bytes, std::mt19937_64& random) {
  for (std::uint64_t edits = 1 + random() % 3; edits > 0 && !bytes.empty(); --edits) {
    const std::uint64_t where = random() % 3;
    const std::size_t front = random() % std::min<std::size_t>(bytes.size(), 8);
    const std::size_t at = where == 0   ? front
                           : where == 1 ? bytes.size() - 1 - front
                                        : random() % bytes.size();
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (random() % 5) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1 << (random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(random());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(place, static_cast<std::byte>(random()));
        break;
      default:
        std::fill(place, bytes.end(),
                  random() % 2 == 0 ? std::byte{0} : static_cast<std::byte>(random()));
    }
  }
}

// What a sender may write by hand, of 8 elements, and no damage is likely to hit.
struct Written {
  const char* what;
  std::vector<unsigned> bytes;
  bool is_fine;
};
template <class Types>
void check_written(std::uint32_t mode, const std::vector<Written>& cases) {
  for (const Written& written : cases) {
    SCOPED_TRACE(written.what);
    Contents contents;
    std::vector<std::byte> bytes;
    for (const unsigned byte : written.bytes) bytes.push_back(static_cast<std::byte>(byte));
    contents.add(mode, bytes);
    const std::vector<typename Types::Word> held(8, 100);
    EXPECT_EQ(check_decoded<Types>(contents, held, 1), written.is_fine ? 0U : 1U);
  }
}

}  // namespace sparcl::test
