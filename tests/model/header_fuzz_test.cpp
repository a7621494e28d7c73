// Mutated headers: each is refused with a reason, or read into what its file really holds. Under
// AddressSanitizer this also shows that no byte outside of the file is touched.
#include <gtest/gtest.h>

#include "src/model/checkpoint.hpp"
#include "src/model/shard_index.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::model {
namespace {

const std::vector<std::string_view> kPieces{"{",
                                            "}",
                                            "[",
                                            "]",
                                            "\"",
                                            ",",
                                            ":",
                                            "-",
                                            "0",
                                            "1",
                                            "e9",
                                            "null",
                                            "true",
                                            "18446744073709551615",
                                            "18446744073709551616",
                                            "9223372036854775808",
                                            "-1",
                                            "0.5",
                                            "\"BF16\"",
                                            "\"F4\"",
                                            "\\u0000",
                                            "\\ud800",
                                            "\xff",
                                            "\xef\xbb\xbf",
                                            "__metadata__",
                                            "data_offsets",
                                            "shape",
                                            "dtype",
                                            "[[[[",
                                            "{\"\":"};

void mutate(std::string& text, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) {
    return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit);
  };
  switch (below(6)) {
    case 0:
      if (!text.empty()) text[below(text.size())] ^= static_cast<char>(1u << below(8));
      break;
    case 1:
      if (!text.empty()) text[below(text.size())] = static_cast<char>(random());
      break;
    case 2:
      text.insert(below(text.size() + 1), kPieces[below(kPieces.size())]);
      break;
    case 3:
      text.erase(below(text.size()), below(20));
      break;
    case 4: {  // a piece of the text once more: duplicate keys, shifted structure
      const std::size_t first = below(text.size());
      text.insert(below(text.size() + 1), text.substr(first, below(60)));
      break;
    }
    default:  // a digit, which keeps the JSON well formed
      if (const std::size_t at = text.find_first_of("0123456789", below(text.size()));
          at != text.npos)
        text[at] = static_cast<char>('0' + below(10));
  }
}

std::string good_header() {
  Schema schema{{"model.embed.weight", DataType::kBfloat16, {4, 3}},
                {"model.norm", DataType::kFloat32, {3}},
                {"step", DataType::kInt64, {}},
                {"empty", DataType::kUint8, {0}}};
  return render_header(schema, {{"format", "pt"}, {"step", "12"}});
}

void check_accepted(const Header& header) {
  ASSERT_TRUE(validate(header.tensors).ok());
  ASSERT_EQ(header.tensors.size(), header.offsets.size());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    ASSERT_EQ(header.offsets[i], at);
    at += *element_count(header.tensors[i]) * element_bytes(header.tensors[i].datatype);
  }
  ASSERT_EQ(at, header.data_bytes);
}

TEST(HeaderFuzz, MutationsAreRefusedOrConsistent) {
  const std::string good = good_header();
  ASSERT_TRUE(parse_header(good).ok());
  int refused = 0;
  const int count = test::by_tier(20'000, 1'000'000);
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    std::string text = good;
    for (std::uint64_t i = 0; i <= random() % 3; ++i) mutate(text, random);
    const Result<Header> header = parse_header(text);
    refused += !header.ok();
    if (header.ok()) {
      check_accepted(*header);
    } else {
      ASSERT_FALSE(header.status().message().empty());
    }
    ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_GT(refused, count / 2);
}

// The whole file, its length field included, through the reader: every accepted tensor's bytes are
// read.
TEST(HeaderFuzz, MutatedFilesAreRefusedOrReadable) {
  test::TempFolder folder;
  const std::string good = test::file_of(good_header(), std::string(44, 'd'));
  const std::string path = folder / "x.safetensors";
  test::write_text(path, good);
  ASSERT_TRUE(Checkpoint::open(path).ok()) << Checkpoint::open(path).status().message();
  unsigned sum = 0;
  int refused = 0;
  const int count = test::by_tier(5'000, 100'000);
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 1'000'000'007);
    std::string text = good;
    mutate(text, random);
    test::write_text(path, text);
    const Result<Checkpoint> file = Checkpoint::open(path);
    refused += !file.ok();
    if (!file.ok()) continue;
    for (std::size_t i = 0; i < file->schema().size(); ++i) {
      for (const std::byte byte : file->bytes(i)) sum += std::to_integer<unsigned>(byte);
    }
  }
  EXPECT_GT(sum, 0u);
  EXPECT_GT(refused, count / 2);
}

TEST(HeaderFuzz, MutatedIndexesAreRefusedOrPlain) {
  const std::string good =
      R"({"metadata":{"total_size":12},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})";
  const int count = test::by_tier(5'000, 200'000);
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed) + 77);
    std::string text = good;
    for (std::uint64_t i = 0; i <= random() % 3; ++i) mutate(text, random);
    const Result<ShardIndex> index = parse_shard_index(text);
    if (!index.ok()) continue;
    for (const std::string& file : index->files)
      ASSERT_EQ(file.find('/'), file.npos) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sparcl::model
