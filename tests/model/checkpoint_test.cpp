#include "src/model/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/shard_index.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using test::TempFolder;

// A file with one tensor of one byte.
std::string shard(std::string_view tensor, char byte = 'x') {
  return test::file_of(
      fmt::format(R"({{"{}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}})", tensor),
      std::string(1, byte));
}

class ShardFolder : public ::testing::Test {
 protected:
  void put(std::string_view name, std::string_view text) { test::write_text(folder_ / name, text); }
  void put_index(std::string_view weight_map) {
    put("model.safetensors.index.json",
        fmt::format(R"({{"metadata":{{"total_size":2}},"weight_map":{{{}}}}})", weight_map));
  }
  Result<Checkpoint> open() const { return Checkpoint::open(folder_.path().string()); }
  std::string message() const { return open().status().message(); }

  TempFolder folder_;
};

TEST_F(ShardFolder, ReadsTheShardsOfTheIndex) {
  put("b.safetensors", shard("first", '1'));
  put("a.safetensors", shard("second", '2'));
  put("unlisted.safetensors", shard("first"));  // is not read: the index decides
  put_index(R"("first":"b.safetensors","second":"a.safetensors")");
  const Result<Checkpoint> checkpoint = open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  ASSERT_EQ(checkpoint->schema().size(), 2u);
  EXPECT_EQ(checkpoint->schema()[0].name, "second");  // in the order of the files' names
  EXPECT_EQ(checkpoint->bytes(0)[0], std::byte{'2'});
  EXPECT_EQ(checkpoint->layout().files[checkpoint->file_of(1)].name, "b.safetensors");
  EXPECT_EQ(checkpoint->layout().index_name, "model.safetensors.index.json");
}

TEST_F(ShardFolder, WithoutAnIndexAllFilesAreRead) {
  put("one.safetensors", shard("x"));
  put("config.json", "{}");
  ASSERT_TRUE(open().ok()) << message();
  put("two.safetensors", shard("y"));
  const Result<Checkpoint> both = open();
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->schema()[0].name, "x");
  EXPECT_EQ(both->schema()[1].name, "y");
}

TEST_F(ShardFolder, UnmappedOnesAreReadAndFailWhereTheirFileIsCut) {
  put("a.safetensors", shard("first", '1'));
  put("b.safetensors", shard("second", '2'));
  const Result<Checkpoint> checkpoint = Checkpoint::open_unread(folder_.path().string());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  std::byte byte{};
  ASSERT_TRUE(checkpoint->read(1, &byte).ok());
  EXPECT_EQ(byte, std::byte{'2'});
  fs::resize_file(folder_ / "b.safetensors", 0);
  const Status cut = checkpoint->read(1, &byte);
  EXPECT_EQ(cut.code(), Code::kCorrupt);
  EXPECT_THAT(cut.message(), AllOf(HasSubstr("b.safetensors: it ends at byte"),
                                   HasSubstr("another program is rewriting it")));
  ASSERT_TRUE(checkpoint->read(0, &byte).ok());
  EXPECT_EQ(byte, std::byte{'1'});
}

TEST_F(ShardFolder, RefusesATensorInTwoFiles) {
  put("one.safetensors", shard("x"));
  put("two.safetensors", shard("x"));
  EXPECT_EQ(open().status().code(), Code::kCorrupt);
  EXPECT_THAT(message(), HasSubstr("tensor 'x' is named twice"));
}

TEST_F(ShardFolder, RefusesAFolderWithoutFiles) {
  EXPECT_THAT(message(), HasSubstr("no *.safetensors file"));
}

TEST_F(ShardFolder, NamesAMissingShard) {
  put("a.safetensors", shard("x"));
  put_index(R"("x":"a.safetensors","y":"b.safetensors")");
  EXPECT_THAT(message(), AllOf(HasSubstr("'b.safetensors'"), HasSubstr("No such file")));
}

TEST_F(ShardFolder, NamesAMissingTensor) {
  put("a.safetensors", shard("x"));
  put_index(R"("x":"a.safetensors","y":"a.safetensors")");
  EXPECT_THAT(message(), HasSubstr("tensor 'y' is missing in shard 'a.safetensors'"));
}

TEST_F(ShardFolder, NamesATensorThatTheIndexDoesNotList) {
  put("a.safetensors", shard("x"));
  put("b.safetensors", shard("y"));
  put_index(R"("x":"a.safetensors")");
  ASSERT_TRUE(open().ok()) << message();  // b is no shard of this index
  put("a.safetensors",
      test::file_of(
          R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"z":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
          "x"));
  EXPECT_THAT(message(),
              HasSubstr("shard 'a.safetensors' holds tensor 'z', which the index does not list"));
}

TEST_F(ShardFolder, NamesATensorInTheWrongShard) {
  put("a.safetensors", shard("x"));
  put("b.safetensors", shard("y"));
  put_index(R"("x":"b.safetensors","y":"a.safetensors")");
  EXPECT_THAT(message(), HasSubstr("tensor 'x'"));
}

TEST_F(ShardFolder, RefusesNamesThatLeaveTheFolder) {
  fs::create_directory(folder_.path() / "model");
  put("outside.safetensors", shard("x"));
  for (const char* name : {"../outside.safetensors", "/etc/passwd",
                           "model/../../outside.safetensors", "..", ".", "", "a\\\\b"}) {
    test::write_text((folder_.path() / "model/model.safetensors.index.json").string(),
                     fmt::format(R"({{"weight_map":{{"x":"{}"}}}})", name));
    const Status status = Checkpoint::open(folder_ / "model").status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << name;
    EXPECT_THAT(status.message(), HasSubstr("is no plain file name")) << name;
  }
}

TEST_F(ShardFolder, FollowsLinksAsInAModelCache) {
  fs::create_directory(folder_.path() / "model");
  put("outside.safetensors", shard("x"));
  fs::create_symlink("../outside.safetensors", folder_.path() / "model/a.safetensors");
  EXPECT_TRUE(Checkpoint::open(folder_ / "model").ok());
  fs::remove(folder_.path() / "model/a.safetensors");
  test::write_text((folder_.path() / "model/b.data").string(), shard("x"));
  fs::create_symlink("b.data", folder_.path() / "model/a.safetensors");
  EXPECT_TRUE(Checkpoint::open(folder_ / "model").ok());
}

TEST_F(ShardFolder, RefusesADamagedShardByName) {
  put("a.safetensors", shard("x"));
  put("b.safetensors", "junk and more junk");
  EXPECT_EQ(open().status().code(), Code::kCorrupt);
  EXPECT_THAT(message(), HasSubstr("b.safetensors"));
}

TEST_F(ShardFolder, SeveralIndexesNeedTheUsualName) {
  put("a.safetensors", shard("x"));
  put("one.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors"}})");
  ASSERT_TRUE(open().ok()) << message();
  put("two.safetensors.index.json", R"({"weight_map":{"x":"a.safetensors"}})");
  EXPECT_THAT(message(), HasSubstr("several indexes"));
  put_index(R"("x":"a.safetensors")");
  EXPECT_TRUE(open().ok()) << message();
}

TEST(ShardIndex, RefusesBadJson) {
  for (const auto& [json, reason] : std::initializer_list<std::pair<std::string, const char*>>{
           {"", "one JSON object"},
           {"[]", "one JSON object"},
           {"{", "no valid JSON"},
           {"{}", "weight_map is missing"},
           {R"({"weight_map":[]})", "weight_map must be an object"},
           {R"({"weight_map":3})", "weight_map must be an object"},
           {R"({"weight_map":{"x":3}})", "the file of tensor 'x' must be a string"},
           {R"({"weight_map":{"x":{}}})", "the file of tensor 'x' must be a string"},
           {R"({"weight_map":{"x":["a"]}})", "the file of tensor 'x' must be a string"},
           {R"({"weight_map":{},"weight_map":{}})", "weight_map is there twice"},
           {R"({"weight_map":{"x":"a.bin"}})", "does not end in .safetensors"},
           {R"({"weight_map":{"x":"a.safetensors","x":"b.safetensors"}})",
            "lists tensor 'x' twice"},
           {R"({"metadata":{"weight_map":{"x":"a"}}})", "weight_map is missing"},
           {R"({"metadata":)" + std::string(50, '[') + std::string(50, ']') +
                R"(,"weight_map":{}})",
            "nested deeper"},
           {std::string("{\"weight_map\":{}}\0", 18), "NUL"},
       }) {
    const Status status = parse_shard_index(json).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << json;
    EXPECT_THAT(status.message(), HasSubstr(reason)) << json;
  }
}

TEST(ShardIndex, SkipsOtherEntries) {
  const Result<ShardIndex> index = parse_shard_index(
      R"({"metadata":{"total_size":1e9,"nested":[{"weight_map":{"y":"../b"}}]},"weight_map":{"x":"a.safetensors"},"more":null,"text":"t"})");
  ASSERT_TRUE(index.ok()) << index.status().message();
  ASSERT_EQ(index->weight_map.size(), 1u);
  EXPECT_EQ(index->files, std::vector<std::string>{"a.safetensors"});
}

}  // namespace
}  // namespace sparcl::model
