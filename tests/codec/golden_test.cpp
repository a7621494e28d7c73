// Golden files: streams that must be made and read as they are, and streams with one defect each that must be refused.
// SPARCL_WRITE_GOLDEN=1 writes those that are missing. Wire version 1 is frozen, so none is written over: where an encoder makes
// other choices on purpose, what it makes is a new file, and the old one is still read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "src/codec/block_mode.hpp"
#include "tests/codec/golden_streams.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::codec {
namespace {

namespace fs = std::filesystem;

fs::path golden_folder() { return test::tree() / "tests/codec/golden"; }

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  const std::vector<char> chars((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Bytes bytes(chars.size());
  std::memcpy(bytes.data(), chars.data(), chars.size());
  return bytes;
}

void write_if_asked(const fs::path& path, const Bytes& bytes) {
  if (std::getenv("SPARCL_WRITE_GOLDEN") == nullptr || fs::exists(path)) return;
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST(GoldenFiles, EveryBodyMakesThemByteForByte) {
  std::vector<const kernels::KernelSet*> sets{&kernels::reference_kernels()};
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) sets.push_back(&set);
  for (const kernels::KernelSet* set : sets) {
    for (const GoldenUpdate& update : golden_updates()) {
      const Encoded encoded = encode_golden(update, *set);
      ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
      const fs::path path = golden_folder() / "good" / (update.name + ".sparcl");
      write_if_asked(path, encoded.bytes);
      EXPECT_TRUE(encoded.bytes == read_file(path)) << update.name << " by " << set->name;
    }
    const fs::path path = golden_folder() / "good" / "sparse.sparcl";
    write_if_asked(path, encode_golden(golden_sparse(), *set));
    EXPECT_TRUE(encode_golden(golden_sparse(), *set) == read_file(path)) << "sparse by " << set->name;
  }
}

TEST(GoldenFiles, AreReadAsTheyWereMeant) {
  for (const GoldenUpdate& update : golden_updates()) {
    const Bytes bytes = read_file(golden_folder() / "good" / (update.name + ".sparcl"));
    for (const Verify verify : {Verify::kOff, Verify::kTouched, Verify::kFull}) {
      if (verify == Verify::kFull && !update.options.with_state_hash) continue;
      State held = update.base;
      const Status status = decode(bytes, held, verify, kGoldenSchema);
      ASSERT_TRUE(status.ok()) << update.name << ": " << status.message();
      EXPECT_TRUE(held.arrays == update.target.arrays) << update.name;
    }
  }
}

TEST(GoldenFiles, HoldEveryMode) {
  std::set<unsigned> modes;
  std::vector<std::string> names{"composed"};  // compose_test.cpp makes it
  for (const GoldenUpdate& update : golden_updates()) names.push_back(update.name);
  for (const std::string& name : names) {
    for (const RawSection& section : take_apart(read_file(golden_folder() / "good" / (name + ".sparcl"))).sections) {
      if (is_block(section.tag)) modes.insert(mode_of(section.tag));
    }
  }
  for (const BlockMode* mode : block_modes()) EXPECT_TRUE(modes.contains(mode->id)) << mode->name;
}

// Blocks of k (two bytes) positions.
TEST(GoldenFiles, HoldListsOfThirds) {
  const GoldenUpdate update = golden_updates().back();
  const RawStream stream = take_apart(read_file(golden_folder() / "good" / (update.name + ".sparcl")));
  std::vector<GapDivisor> divisors;
  for (const RawSection& section : stream.sections) {
    if (section.tag != kTagBlock + kFlatMode.id) continue;
    const auto low = std::to_integer<std::uint64_t>(section.content[0]) & 0x7f;
    const std::uint64_t count = low | std::to_integer<std::uint64_t>(section.content[1]) << 7;
    divisors.push_back(gap_divisor(update.base.specs[divisors.size()].count, count));
  }
  EXPECT_THAT(divisors, testing::ElementsAre(GapDivisor{0, true}, GapDivisor{1, true}, GapDivisor{3, true}));
}

// One defect: which good stream it is made from, how, and how it must be refused.
struct Defect {
  std::string name;
  std::string good;
  Code code;
  std::string message;  // a part of it
  std::function<Bytes(RawStream, const Bytes&)> make;
};

Bytes with_content(RawStream stream, std::uint8_t tag, const std::function<void(Bytes&)>& change, std::size_t n = 0) {
  change(stream.content(tag, n));
  return put_together(stream);
}

// A change of one section's content, with the checksums mended.
std::function<Bytes(RawStream, const Bytes&)> content(std::uint8_t tag, std::function<void(Bytes&)> change, std::size_t n = 0) {
  return [=](const RawStream& stream, const Bytes&) { return with_content(stream, tag, change, n); };
}

std::function<Bytes(RawStream, const Bytes&)> surgery(std::function<void(RawStream&)> change) {
  return [=](RawStream stream, const Bytes&) {
    change(stream);
    return put_together(stream);
  };
}

// The same with all checksums left as they are.
std::function<Bytes(RawStream, const Bytes&)> surgery_unmended(std::function<void(RawStream&)> change) {
  return [=](RawStream stream, const Bytes&) {
    change(stream);
    return put_together(stream, false);
  };
}

std::function<Bytes(RawStream, const Bytes&)> raw(std::function<void(Bytes&)> change) {
  return [=](const RawStream&, Bytes bytes) {
    change(bytes);
    return bytes;
  };
}

void flip(Bytes& bytes, std::size_t at, int bits = 1) { bytes.at(at) ^= static_cast<std::byte>(bits); }

constexpr std::uint8_t kDense = kTagBlock + 0;
constexpr std::uint8_t kVerbatim = kTagBlock + 2;
constexpr std::uint8_t kFlat = kTagBlock + 3;
constexpr std::uint8_t kClasses = kTagBlock + 4;
constexpr std::uint8_t kTwoLevel = kTagBlock + 6;
constexpr std::uint8_t kPacked = kTagBlock + 8;
constexpr std::uint8_t kCoded = kTagBlock + 10;
constexpr std::uint8_t kFlatGroup = kTagBlock + 12;
constexpr std::uint8_t kTwoLevelGroup = kTagBlock + 13;
constexpr std::uint8_t kAdded = kTagBlock + 11;
constexpr std::uint8_t kBlockSparse = kTagBlock + 14;

std::vector<Defect> frame_defects() {
  const auto insert = [](RawStream& stream, std::size_t at, std::uint8_t tag, std::size_t bytes) {
    stream.sections.insert(stream.sections.begin() + static_cast<std::ptrdiff_t>(at), RawSection{tag, Bytes(bytes)});
  };
  return {
      {"magic_differs", "flat", Code::kCorrupt, "SPRC", raw([](Bytes& b) { flip(b, 0); })},
      {"version_zero", "flat", Code::kCorrupt, "wire version 0", raw([](Bytes& b) { b[4] = std::byte{0}; })},
      {"version_unknown", "flat", Code::kCorrupt, "wire version 9", raw([](Bytes& b) { b[4] = std::byte{9}; })},
      {"kind_sparse", "flat", Code::kCorrupt, "another kind", raw([](Bytes& b) { b[5] = std::byte{2}; })},
      {"prefix_reserved_not_zero", "flat", Code::kCorrupt, "reserved", raw([](Bytes& b) { flip(b, 7); })},
      {"tag_unknown", "flat", Code::kCorrupt, "tag 0x41", surgery([&](RawStream& s) { insert(s, 1, 0x41, 5); })},
      {"mode_unknown", "flat", Code::kCorrupt, "tag 0x1f", surgery([&](RawStream& s) { s.sections[s.find(kFlat)].tag = 0x1f; })},
      {"header_missing", "flat", Code::kCorrupt, "header", surgery([](RawStream& s) { s.sections.erase(s.sections.begin()); })},
      {"header_twice", "flat", Code::kCorrupt, "header",
       surgery([](RawStream& s) { s.sections.insert(s.sections.begin(), s.sections[0]); })},
      {"header_longer", "flat", Code::kCorrupt, "61 bytes",
       content(kTagUpdateHeader, [](Bytes& b) { b.insert(b.begin(), std::byte{0}); })},
      {"attachment_late", "flat", Code::kCorrupt, "attachment", surgery([&](RawStream& s) { insert(s, 2, kTagAttachment, 3); })},
      {"attachment_twice", "many_arrays", Code::kCorrupt, "attachment",
       surgery([&](RawStream& s) { insert(s, 2, kTagAttachment, 3); })},
      {"chunk_end_missing", "flat", Code::kCorrupt, "chunk end",
       surgery([](RawStream& s) { s.sections.erase(s.sections.begin() + static_cast<std::ptrdiff_t>(s.find(kTagChunkEnd))); })},
      {"end_missing", "flat", Code::kCorrupt, "cut off", surgery([](RawStream& s) { s.sections.pop_back(); })},
      {"end_cut", "flat", Code::kCorrupt, "cut off", raw([](Bytes& b) { b.pop_back(); })},
      {"end_twice", "flat", Code::kCorrupt, "after the end",
       surgery([](RawStream& s) { s.sections.push_back(s.sections.back()); })},
      {"byte_after_end", "flat", Code::kCorrupt, "after the end", raw([](Bytes& b) { b.push_back(std::byte{0}); })},
      {"end_shorter", "flat", Code::kCorrupt, "length", content(kTagEnd, [](Bytes& b) { b.resize(b.size() - 16); })},
      {"length_overlong", "flat", Code::kCorrupt, "varint", raw([](Bytes& b) {
         b[9] |= std::byte{0x80};
         b.insert(b.begin() + 10, std::byte{0});
       })},
      {"length_claims_terabytes", "unchanged", Code::kCorrupt, "cannot have", raw([](Bytes& b) {
         const Bytes length{std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0xff}, std::byte{0x7f}};
         b.insert(b.begin() + 9, length.begin(), length.end());
         b.erase(b.begin() + 15);
       })},
      {"header_crc_differs", "flat", Code::kCorrupt, "CRC32C", raw([](Bytes& b) { flip(b, 12); })},
      {"block_bit_flipped", "verbatim", Code::kCorrupt, "CRC32C", raw([](Bytes& b) { flip(b, 100); })},
      {"attachment_byte_flipped", "many_arrays", Code::kCorrupt, "CRC32C",
       raw([](Bytes& b) { flip(b, kPrefixBytes + 2 + kUpdateHeaderBytes + 3); })},
      {"header_of_another_update", "flat", Code::kCorrupt, "CRC32C", surgery_unmended([](RawStream& s) {
         s.sections[0].content[8] ^= std::byte{1};  // its target version; the header's own checksum is right
         const Bytes mended = put_together({s.prefix, {s.sections[0]}});
         s.sections[0].content.assign(mended.end() - kUpdateHeaderBytes, mended.end());
       })},
      {"end_crc_differs", "flat", Code::kCorrupt, "CRC32C", raw([](Bytes& b) { flip(b, b.size() - 1); })},
      {"blocks_swapped", "many_arrays", Code::kCorrupt, "", surgery([](RawStream& s) { std::swap(s.sections[2], s.sections[3]); })},
      {"block_missing", "many_arrays", Code::kCorrupt, "", surgery([](RawStream& s) { s.sections.erase(s.sections.begin() + 2); })},
      {"chunk_end_twice", "flat", Code::kCorrupt, "follows no block",
       surgery([&](RawStream& s) { insert(s, s.find(kTagChunkEnd) + 1, kTagChunkEnd, kChunkEndBytes); })},
      {"block_twice", "dense", Code::kCorrupt, "past the last",
       surgery([](RawStream& s) { s.sections.insert(s.sections.begin() + 1, s.sections[1]); })},
  };
}

std::vector<Defect> content_defects() {
  return {
      {"flag_undefined", "flat", Code::kCorrupt, "flags", content(kTagUpdateHeader, [](Bytes& b) { b[52] |= std::byte{8}; })},
      {"no_digests_and_no_hashes", "verbatim", Code::kCorrupt, "digests",
       content(kTagUpdateHeader, [](Bytes& b) { b[52] |= std::byte{4}; })},
      {"schema_differs", "flat", Code::kMismatch, "schema", content(kTagUpdateHeader, [](Bytes& b) { flip(b, 16); })},
      {"layout_differs", "flat", Code::kMismatch, "types or sizes", content(kTagUpdateHeader, [](Bytes& b) { flip(b, 32); })},
      {"elements_differ", "flat", Code::kMismatch, "types or sizes", content(kTagUpdateHeader, [](Bytes& b) { flip(b, 40); })},
      {"arrays_differ", "flat", Code::kMismatch, "types or sizes", content(kTagUpdateHeader, [](Bytes& b) { flip(b, 48); })},
      {"gap_of_zero", "flat", Code::kCorrupt, "unchanged blocks", surgery([](RawStream& s) {
         RawSection& block = s.sections[s.find(kFlat)];
         block.tag |= 0x20;
         block.content.insert(block.content.begin(), std::byte{0});
       })},
      {"gap_past_last_block", "flat", Code::kCorrupt, "past the last", surgery([](RawStream& s) {
         RawSection& block = s.sections[s.find(kFlat)];
         block.tag |= 0x20;
         block.content.insert(block.content.begin(), std::byte{1});
       })},
      {"change_count_zero", "verbatim", Code::kCorrupt, "change count", content(kVerbatim, [](Bytes& b) { b[0] = std::byte{0}; })},
      {"change_count_over_block", "verbatim", Code::kCorrupt, "change count",
       content(kVerbatim,
               [](Bytes& b) {
                 b[0] = std::byte{0xb1};
                 b.insert(b.begin() + 1, std::byte{9});
               })},
      {"verbatim_values_cut", "verbatim", Code::kCorrupt, "inside its values", content(kVerbatim, [](Bytes& b) { b.resize(100); })},
      {"verbatim_positions_cut", "verbatim", Code::kCorrupt, "", content(kVerbatim, [](Bytes& b) { b.pop_back(); })},
      {"verbatim_byte_more", "verbatim", Code::kCorrupt, "does not end",
       content(kVerbatim, [](Bytes& b) { b.push_back(std::byte{0}); })},
      {"flat_positions_cut", "flat", Code::kCorrupt, "inside its positions",
       content(kFlat, [](Bytes& b) { b.resize(40 + kOldCheckBytes); })},
      {"flat_signs_cut", "flat", Code::kCorrupt, "inside its signs",
       content(kFlat, [](Bytes& b) { b.resize(78 + kOldCheckBytes); })},
      {"flat_magnitudes_cut", "flat", Code::kCorrupt, "", content(kFlat, [](Bytes& b) { b.pop_back(); })},
      {"flat_byte_more", "flat", Code::kCorrupt, "does not end", content(kFlat, [](Bytes& b) { b.push_back(std::byte{0}); })},
      {"flat_padding_not_zero", "flat", Code::kCorrupt, "does not end",
       content(kFlat, [](Bytes& b) { b[b.size() - 1 - kOldCheckBytes] |= std::byte{0x80}; })},
      // Its content: k (two bytes), parameters, x (one byte), the plane in which trits are not 0.
      {"flat_second_trits_cut", "thirds", Code::kCorrupt, "inside its positions",
       content(kFlat,
               [](Bytes& b) {
                 b.resize(50 + kOldCheckBytes);
                 std::fill(b.begin() + 4, b.end(), std::byte{0xff});
               })},
      {"flat_old_check_cut", "flat", Code::kCorrupt, "before its check", content(kFlat, [](Bytes& b) { b.resize(1); })},
      {"flat_parameter_bit_7", "flat", Code::kCorrupt, "parameters", content(kFlat, [](Bytes& b) { b[1] |= std::byte{0x80}; })},
      {"flat_exceptions_over_changes", "flat", Code::kCorrupt, "more exceptions",
       content(kFlat, [](Bytes& b) { b[2] = std::byte{0x7f}; })},
      {"flat_exponent_without_exceptions", "flat", Code::kCorrupt, "exponent",
       content(kFlat,
               [](Bytes& b) {
                 b[1] = std::byte{5};
                 b[2] = std::byte{0};
               })},
      {"flat_unary_of_zeros", "flat", Code::kCorrupt, "positions past",
       content(kFlat, [](Bytes& b) { std::fill(b.begin() + 100, b.end(), std::byte{0}); })},
      {"dense_cut", "dense", Code::kCorrupt, "as long as", content(kDense, [](Bytes& b) { b.pop_back(); })},
      {"dense_longer", "dense", Code::kCorrupt, "as long as", content(kDense, [](Bytes& b) { b.push_back(std::byte{0}); })},
      {"total_blocks_differ", "flat", Code::kCorrupt, "totals", content(kTagEnd, [](Bytes& b) { flip(b, 0); })},
      {"total_elements_differ", "flat", Code::kCorrupt, "totals", content(kTagEnd, [](Bytes& b) { flip(b, 8); })},
      {"total_changed_too_many", "flat", Code::kCorrupt, "totals", content(kTagEnd, [](Bytes& b) { flip(b, 22); })},
      {"old_digest_differs", "flat", Code::kWrongBase, "neither", content(kTagChunkEnd, [](Bytes& b) { flip(b, 0); })},
      {"new_digest_is_the_old_one", "flat", Code::kCorrupt, "do not lead to",
       content(kTagChunkEnd, [](Bytes& b) { std::copy_n(b.begin(), 8, b.begin() + 8); })},
      {"new_digest_differs", "flat", Code::kCorrupt, "do not lead to", content(kTagChunkEnd, [](Bytes& b) { flip(b, 8); })},
  };
}

std::vector<Defect> sub_block_defects() {
  // Its content: k (one byte), sizes, s, parameters, x, bits.
  return {
      {"two_level_short_gaps_of_too_many_bits", "two_level", Code::kCorrupt, "sizes of gaps",
       content(kTwoLevel, [](Bytes& b) { b[1] = std::byte{0x54}; })},
      {"two_level_more_long_gaps_than_changes", "two_level", Code::kCorrupt, "sizes of gaps",
       content(kTwoLevel, [](Bytes& b) { b[2] = std::byte{0x7f}, b[1] = std::byte{0}; })},
      {"two_level_long_gaps_past_end", "two_level", Code::kCorrupt, "sizes of gaps",
       content(kTwoLevel, [](Bytes& b) { b[1] = std::byte{0x0c}, b[2] = std::byte{2}; })},
      {"two_level_cut", "two_level", Code::kCorrupt, "inside its positions",
       content(kTwoLevel, [](Bytes& b) { b.resize(8 + kOldCheckBytes); })},
  };
}

std::vector<Defect> group_defects() {
  // Its content: blocks less one, k (two bytes), ...; of two levels k (one byte), sizes, s, ...
  return {
      {"group_past_its_run", "flat_group", Code::kCorrupt, "past the last block",
       content(kFlatGroup, [](Bytes& b) { b[0] = static_cast<std::byte>(std::to_integer<int>(b[0]) + 1); })},
      {"group_ends_unchanged", "two_level_group", Code::kCorrupt, "does not change",
       content(kTwoLevelGroup, [](Bytes& b) { b[0] = static_cast<std::byte>(std::to_integer<int>(b[0]) + 1); })},
      {"group_empty", "flat_group", Code::kCorrupt, "past the last block",
       content(kFlatGroup, [](Bytes& b) { b.erase(b.begin(), b.end() - kOldCheckBytes); })},
      {"group_change_count_zero", "two_level_group", Code::kCorrupt, "change count",
       content(kTwoLevelGroup, [](Bytes& b) { b[1] = std::byte{0}; })},
      {"group_of_16385_changes", "flat_group", Code::kCorrupt, "change count",
       content(kFlatGroup,
               [](Bytes& b) {
                 b[1] = std::byte{0x81}, b[2] = std::byte{0x80};
                 b.insert(b.begin() + 3, std::byte{1});
               })},
      {"group_sizes_of_gaps", "two_level_group", Code::kCorrupt, "sizes of gaps",
       content(kTwoLevelGroup, [](Bytes& b) { b[2] = std::byte{0x54}; })},
      {"group_cut", "flat_group", Code::kCorrupt, "inside its", content(kFlatGroup, [](Bytes& b) { b.resize(30); })},
  };
}

std::vector<Defect> block_sparse_defects() {
  // Its content, of a group of whole sub-blocks: blocks less one, k (two bytes), c, s (one byte), parameters, x, bits. The second
  // is of parts of sub-blocks.
  const auto set = [](std::size_t at, int value, std::size_t n = 0) {
    return content(
        kBlockSparse, [=](Bytes& b) { b.at(at) = static_cast<std::byte>(value); }, n);
  };
  return {
      {"block_sparse_sub_blocks_of_1", "block_sparse", Code::kCorrupt, "invalid sub-blocks", set(3, 0)},
      {"block_sparse_sub_blocks_of_65536", "block_sparse", Code::kCorrupt, "invalid sub-blocks", set(3, 16)},
      {"block_sparse_no_sub_block", "block_sparse", Code::kCorrupt, "invalid sub-blocks", set(4, 0)},
      {"block_sparse_more_sub_blocks_than_there_are", "block_sparse", Code::kCorrupt, "invalid sub-blocks",
       content(kBlockSparse, [](Bytes& b) { b.at(3) = std::byte{15}, b.at(4) = std::byte{7}; })},
      {"block_sparse_more_sub_blocks_than_changes", "block_sparse", Code::kCorrupt, "invalid sub-blocks",
       content(kBlockSparse,
               [](Bytes& b) {
                 b.at(1) = std::byte{7};  // k, of one byte now
                 b.erase(b.begin() + 2);
               })},
      {"block_sparse_more_changes_than_elements", "block_sparse", Code::kCorrupt, "sub-blocks past its end", set(3, 2)},
      {"block_sparse_sub_block_past_end", "block_sparse", Code::kCorrupt, "sub-blocks past its end", set(3, 14)},
      {"block_sparse_of_16385_changes", "block_sparse", Code::kCorrupt, "change count",
       content(kBlockSparse,
               [](Bytes& b) {
                 b.at(1) = std::byte{0x81}, b.at(2) = std::byte{0x80};
                 b.insert(b.begin() + 3, std::byte{1});
               })},
      {"block_sparse_past_its_run", "block_sparse", Code::kCorrupt, "past the last block", set(0, 3)},
      {"block_sparse_cut", "block_sparse", Code::kCorrupt, "inside its", content(kBlockSparse, [](Bytes& b) { b.resize(12); })},
      {"block_sparse_inner_list_cut", "block_sparse", Code::kCorrupt, "",
       content(
           kBlockSparse, [](Bytes& b) { b.erase(b.end() - 12, b.end() - kOldCheckBytes); }, 1)},
  };
}

std::vector<Defect> class_defects() {
  constexpr std::uint8_t kTable = kTagClassTable;
  return {
      {"class_table_empty", "classes", Code::kCorrupt, "is empty", content(kTable, [](Bytes& b) { b.clear(); })},
      {"class_table_cut", "classes", Code::kCorrupt, "as many classes", content(kTable, [](Bytes& b) { b.pop_back(); })},
      {"class_table_of_13", "classes", Code::kCorrupt, "as many classes",
       content(kTable,
               [](Bytes& b) {
                 b[0] = std::byte{13};
                 b.resize(1 + 13 * 5);
               })},
      {"class_table_ascends", "classes", Code::kCorrupt, "descend", content(kTable, [](Bytes& b) { b[6] = b[1]; })},
      {"class_table_not_to_zero", "classes", Code::kCorrupt, "descend",
       content(kTable, [](Bytes& b) { b[b.size() - 5] = std::byte{1}; })},
      {"class_table_parameter_bit_4", "classes", Code::kCorrupt, "parameters",
       content(kTable, [](Bytes& b) { b[2] |= std::byte{0x10}; })},
      {"class_table_expects_too_much", "classes", Code::kCorrupt, "expects",
       content(kTable, [](Bytes& b) { b[3] = std::byte{129}; })},
      {"class_table_exceptions_over_changes", "classes", Code::kCorrupt, "more exceptions",
       content(kTable, [](Bytes& b) { b[4] = static_cast<std::byte>(static_cast<unsigned>(b[3]) + 1); })},
      {"class_table_twice", "classes", Code::kCorrupt, "followed by another",
       surgery([](RawStream& s) { s.sections.insert(s.sections.begin() + 1, s.sections[s.find(kTable)]); })},
      {"class_table_unused", "flat", Code::kCorrupt, "used by no block", surgery([](RawStream& s) {
         s.sections.insert(s.sections.begin() + 1, RawSection{kTable, Bytes{std::byte{1}, {}, {}, {}, {}, {}}});
       })},
      {"class_table_missing", "classes", Code::kCorrupt, "before a table",
       surgery([](RawStream& s) { s.sections.erase(s.sections.begin() + static_cast<std::ptrdiff_t>(s.find(kTable))); })},
      {"classes_without_target_hash", "classes", Code::kCorrupt, "without its target's",
       content(kTagUpdateHeader, [](Bytes& b) { b[52] &= ~std::byte{2}; })},
      {"classes_of_int64", "verbatim", Code::kCorrupt, "no 16-bit float",
       surgery([](RawStream& s) { s.sections[s.find(kVerbatim)].tag = kClasses; })},
      {"classes_of_one_block_more", "classes", Code::kCorrupt, "not the first", surgery([](RawStream& s) {
         RawSection& block = s.sections[s.find(kClasses)];
         block.tag |= 0x20;
         block.content.insert(block.content.begin(), std::byte{1});
       })},
      {"classes_change_count_zero", "classes", Code::kCorrupt, "change count",
       content(kClasses, [](Bytes& b) { b[0] = b[1] = b[2] = std::byte{0}; })},
      {"classes_positions_cut", "classes", Code::kCorrupt, "inside its positions",
       content(kClasses, [](Bytes& b) { b.resize(300); })},
      {"classes_of_zeros", "classes", Code::kCorrupt, "",
       content(kClasses, [](Bytes& b) { std::fill(b.begin() + 500, b.end(), std::byte{0}); })},
      {"classes_byte_more", "classes", Code::kCorrupt, "does not end",
       content(kClasses, [](Bytes& b) { b.push_back(std::byte{0}); })},
      {"classes_magnitudes_cut", "classes", Code::kCorrupt, "", content(kClasses, [](Bytes& b) { b.pop_back(); })},
  };
}

std::vector<Defect> entropy_defects() {
  // Of coded: k (two bytes), c, bounds, tables, stream, bits. Of packed: planes, a table, planes of which the last is coded.
  return {
      {"coded_too_many_contexts", "coded", Code::kCorrupt, "count of contexts",
       content(kCoded, [](Bytes& b) { b[2] = std::byte{16}; })},
      {"coded_bounds_do_not_ascend", "coded", Code::kCorrupt, "ascend", content(kCoded, [](Bytes& b) { b[4] = b[3]; })},
      {"coded_table_of_another_sum", "coded", Code::kCorrupt, "table", content(kCoded, [](Bytes& b) { flip(b, 18, 4); })},
      {"coded_without_state_hash", "coded", Code::kCorrupt, "state hash",
       content(kTagUpdateHeader, [](Bytes& b) { b[52] = std::byte{0}; })},
      {"coded_cut", "coded", Code::kWrongBase, "neither", content(kCoded, [](Bytes& b) { b.resize(500); })},
      {"coded_leads_elsewhere", "coded", Code::kCorrupt, "do not lead to the values",
       content(kCoded, [](Bytes& b) { flip(b, 900); })},
      {"packed_plane_that_there_is_not", "packed", Code::kCorrupt, "plane",
       content(kPacked, [](Bytes& b) { b[0] |= std::byte{16}; })},
      {"packed_cut", "packed", Code::kCorrupt, "inside a coded plane", content(kPacked, [](Bytes& b) { b.pop_back(); })},
      {"packed_byte_more", "packed", Code::kCorrupt, "does not end", content(kPacked, [](Bytes& b) { b.push_back(std::byte{0}); })},
      {"packed_word_flipped", "packed", Code::kCorrupt, "another length",
       content(kPacked, [](Bytes& b) { flip(b, b.size() - 9); })},
  };
}

std::vector<Defect> added_defects() {
  // k (one or two bytes), form, scale (low byte first), parameters; the first block is of floats of 32 bits.
  return {
      {"added_change_count_zero", "added_float8", Code::kCorrupt, "change count",
       content(kAdded, [](Bytes& b) { b[0] = std::byte{0}; })},
      {"added_undefined_form", "added_float8", Code::kCorrupt, "form or scale",
       content(kAdded, [](Bytes& b) { b[1] |= std::byte{4}; })},
      {"added_scale_zero", "added_float8", Code::kCorrupt, "form or scale",
       content(kAdded, [](Bytes& b) { b[2] = b[3] = b[4] = b[5] = std::byte{0}; })},
      {"added_scale_denormal", "added_float8", Code::kCorrupt, "form or scale",
       content(kAdded, [](Bytes& b) { b[4] = std::byte{0x0f}, b[5] = std::byte{0}; })},
      {"added_scale_negative", "added_float8", Code::kCorrupt, "form or scale",
       content(kAdded, [](Bytes& b) { b[5] |= std::byte{0x80}; })},
      {"added_scale_too_large", "added_float8", Code::kCorrupt, "form or scale",
       content(kAdded, [](Bytes& b) { b[4] = std::byte{0xd0}, b[5] = std::byte{0x7e}; })},
      {"added_code_127_of_float8", "added", Code::kCorrupt, "code that there is not",
       content(kAdded, [](Bytes& b) { b[b[0] < std::byte{0x80} ? 1 : 2] |= std::byte{1}; })},
      {"added_leads_elsewhere", "added_float8", Code::kCorrupt, "do not lead to the values",
       content(kAdded, [](Bytes& b) { flip(b, 4); })},
      {"added_codes_cut", "added_float8", Code::kCorrupt, "", content(kAdded, [](Bytes& b) { b.resize(60); })},
      {"added_to_integers", "verbatim", Code::kCorrupt, "no float of 16 bits",
       surgery([](RawStream& s) { s.sections[s.find(kVerbatim)].tag = kAdded; })},
  };
}

std::vector<Defect> defects() {
  auto all = frame_defects();
  for (Defect& defect : added_defects()) all.push_back(std::move(defect));
  for (Defect& defect : sub_block_defects()) all.push_back(std::move(defect));
  for (Defect& defect : entropy_defects()) all.push_back(std::move(defect));
  for (Defect& defect : content_defects()) all.push_back(std::move(defect));
  for (Defect& defect : group_defects()) all.push_back(std::move(defect));
  for (Defect& defect : block_sparse_defects()) all.push_back(std::move(defect));
  for (Defect& defect : class_defects()) all.push_back(std::move(defect));
  return all;
}

TEST(GoldenFiles, EachDefectIsRefusedByItsReason) {
  std::set<std::string> expected;
  for (const Defect& defect : defects()) {
    const fs::path path = golden_folder() / "bad" / (defect.name + ".sparcl");
    expected.insert(path.filename());
    const std::vector<GoldenUpdate> updates = golden_updates();
    ASSERT_EQ(std::ranges::count(updates, defect.good, &GoldenUpdate::name), 1) << defect.name;
    for (const GoldenUpdate& update : updates) {
      if (update.name != defect.good) continue;
      const Bytes good = read_file(golden_folder() / "good" / (update.name + ".sparcl"));
      write_if_asked(path, defect.make(take_apart(good), good));
      State held = update.base;
      const Status status = decode(read_file(path), held, Verify::kTouched, kGoldenSchema);
      EXPECT_EQ(status.code(), defect.code) << defect.name << ": " << status.message();
      EXPECT_THAT(status.message(), testing::HasSubstr(defect.message)) << defect.name;
      EXPECT_TRUE(held.arrays == update.base.arrays) << defect.name;
    }
  }
  std::set<std::string> present;
  for (const auto& entry : fs::directory_iterator(golden_folder() / "bad")) present.insert(entry.path().filename());
  EXPECT_EQ(present, expected) << "each file has a row, and each row a file";
}

TEST(GoldenFiles, AnUnknownSectionThatMayBeSkippedIs) {
  const GoldenUpdate update = golden_updates()[1];
  RawStream stream = take_apart(encode_golden(update, kernels::cpu_kernels()).bytes);
  for (const std::size_t at : {1u, 3u, 5u}) {
    stream.sections.insert(stream.sections.begin() + at, RawSection{0x80 | 0x41, Bytes(at * 11)});
  }
  State held = update.base;
  const Status status = decode(put_together(stream), held, Verify::kFull, kGoldenSchema);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(held.arrays == update.target.arrays);
}

}  // namespace
}  // namespace sparcl::codec
