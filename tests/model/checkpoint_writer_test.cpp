#include "src/model/checkpoint_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "src/base/files/atomic_file.hpp"
#include "src/model/checkpoint.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
namespace fs = std::filesystem;
using test::TempFolder;
using test::Tensors;

Tensors every_type() {
  Tensors tensors;
  std::uint64_t seed = 1;
  for (int number = 0; number < 64; ++number) {
    if (const DataTypeInfo* type = find_data_type(number)) {
      test::add_tensor(tensors, fmt::format("layer.{}", type->name), type->type, {3, seed}, seed);
      ++seed;
    }
  }
  test::add_tensor(tensors, "scalar", DataType::kFloat32, {}, 1);
  test::add_tensor(tensors, "empty", DataType::kFloat32, {4, 0}, 1);
  test::add_tensor(tensors, "n\xc3\xa4me with \"quotes\"\n", DataType::kUint8, {1}, 1);
  return tensors;
}

TEST(CheckpointWriter, WhatItWritesIsRead) {
  TempFolder folder;
  const Tensors tensors = every_type();
  const Status status = write_safetensors(folder / "x.safetensors", tensors.schema,
                                          tensors.pointers(), {{"step", "7"}, {"", "\"\n"}});
  ASSERT_TRUE(status.ok()) << status.message();
  const Result<Checkpoint> file = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->schema(), tensors.schema);
  EXPECT_EQ(file->metadata(0), (Metadata{{"step", "7"}, {"", "\"\n"}}));
  for (std::size_t i = 0; i < tensors.bytes.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(file->bytes(i), tensors.bytes[i])) << tensors.schema[i].name;
  }
  EXPECT_EQ(file->layout().files[0].header.size() % 8, 0u);
  EXPECT_EQ(folder.count(), 1u);
}

// What the format's reference implementation writes for these tensors, byte for byte.
TEST(CheckpointWriter, UsesTheUsualStyle) {
  const Schema schema{{"w", DataType::kBfloat16, {2, 3}}, {"s", DataType::kInt8, {}}};
  EXPECT_EQ(
      render_header(schema, {{"format", "pt"}}),
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("s":{"dtype":"I8","shape":[],"data_offsets":[12,13]}}  )");
  EXPECT_EQ(render_header({}, {}), "{}      ");
}

TEST(CheckpointWriter, RoundTripIsByteIdentical) {
  TempFolder folder;
  const Tensors tensors = every_type();
  ASSERT_TRUE(
      write_safetensors(folder / "a", tensors.schema, tensors.pointers(), {{"step", "7"}}).ok());
  const Result<Checkpoint> file = Checkpoint::open(folder / "a");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(
      write_safetensors(folder / "b", file->schema(), file->pointers(), file->metadata(0)).ok());
  EXPECT_EQ(test::read_text(folder / "a"), test::read_text(folder / "b"));
}

// Another style, another order of names than of data: the layout keeps both.
TEST(CheckpointWriter, KeepsAForeignHeader) {
  TempFolder folder;
  const std::string text = test::file_of(
      "{\"b\": {\"shape\": [1], \"data_offsets\": [1, 2],\t\"dtype\": \"U8\"}, \"a\": {\"dtype\": "
      "\"U8\", \"shape\": [1], \"data_offsets\": [0, 1]}, \"__metadata__\": {}}  \n",
      "xy");
  test::write_text(folder / "a", text);
  const Result<Checkpoint> file = Checkpoint::open(folder / "a");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(write_checkpoint(folder / "b", file->layout(), file->pointers()).ok());
  EXPECT_EQ(test::read_text(folder / "b"), text);
}

TEST(CheckpointWriter, RefusesABadSchema) {
  TempFolder folder;
  const std::byte byte{};
  const std::vector<const std::byte*> two{&byte, &byte};
  EXPECT_FALSE(write_safetensors(folder / "x",
                                 {{"a", DataType::kUint8, {}}, {"a", DataType::kUint8, {}}}, two)
                   .ok());
  EXPECT_FALSE(write_safetensors(folder / "x", {{"\xff", DataType::kUint8, {}}}, two).ok());
  EXPECT_FALSE(
      write_safetensors(folder / "x", {{"a", DataType::kUint8, {}}}, two, {{"k", "\xff"}}).ok());
  EXPECT_FALSE(write_safetensors(folder / "x", {{"a", DataType::kUint8, {}}}, {}).ok());
  EXPECT_EQ(folder.count(), 0u);
}

TEST(CheckpointWriter, ReplacesAFileAndKeepsItsPermissions) {
  TempFolder folder;
  test::write_text(folder / "x", "old");
  fs::permissions(folder / "x", fs::perms::owner_read | fs::perms::owner_write);
  const Tensors tensors = every_type();
  ASSERT_TRUE(write_safetensors(folder / "x", tensors.schema, tensors.pointers()).ok());
  EXPECT_TRUE(Checkpoint::open(folder / "x").ok());
  EXPECT_EQ(fs::status(folder / "x").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(CheckpointWriter, NamesTheMissingFolder) {
  TempFolder folder;
  const Status status = write_safetensors(folder / "none/x", {}, {});
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_THAT(status.message(), HasSubstr("none/x: cannot be created: No such file"));
}

TEST(CheckpointWriter, RefusesToReplaceADevice) {
  EXPECT_THAT(write_safetensors("/dev/null", {}, {}).message(), HasSubstr("no regular file"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

// No descriptor is left to synchronise the folder by, where the file is renamed already.
TEST(CheckpointWriter, SaysThatAFileIsReplacedWhereItsNameMightNotLast) {
  TempFolder folder;
  test::write_text(folder / "x", "old");
  Result<AtomicFile> file = AtomicFile::create(folder / "x");
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(file->write(std::as_bytes(std::span("new", 3))).ok());
  struct rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  struct rlimit none = limit;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = file->commit();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_THAT(status.message(), AllOf(HasSubstr((folder / "x") + ": the new one is there"),
                                      HasSubstr("after a power failure"),
                                      HasSubstr("cannot be opened: Too many open files")));
  EXPECT_EQ(test::read_text(folder / "x"), "new");
}

// A disk that is full in the middle: the limit on a file's size stands in for it.
TEST(CheckpointWriter, AFailedWriteLeavesTheOldFileAndNothingElse) {
  TempFolder folder;
  test::write_text(folder / "x", "old");
  Tensors tensors;
  test::add_tensor(tensors, "big", DataType::kUint8, {1 << 20}, 1);

  struct rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  struct rlimit small = limit;
  small.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = write_safetensors(folder / "x", tensors.schema, tensors.pointers());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);

  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_THAT(status.message(), AllOf(HasSubstr((folder / "x") + ": writing "),
                                      HasSubstr("at byte 100000 failed: File too large (files of "
                                                "this process may have 100000 bytes: ulimit -f)")));
  EXPECT_EQ(test::read_text(folder / "x"), "old");
  EXPECT_EQ(folder.count(), 1u);
}

// What a program does before a signal ends it.
TEST(AtomicFile, UnfinishedOutputCanBeRemovedFromOutside) {
  TempFolder folder;
  Result<AtomicFile> unfinished = AtomicFile::create(folder / "unfinished");
  Result<AtomicFile> finished = AtomicFile::create(folder / "finished");
  ASSERT_TRUE(unfinished.ok() && finished.ok());
  ASSERT_TRUE(finished->commit().ok());
  EXPECT_EQ(folder.count(), 2u);
  (void)remove_temporary_paths();
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_TRUE(fs::exists(folder / "finished"));
  EXPECT_EQ(unfinished->commit().code(), Code::kSystemError);
}

class FolderWriter : public ::testing::Test {
 protected:
  // Two shards with an index.
  void SetUp() override {
    test::add_tensor(tensors_, "a", DataType::kUint16, {5}, 1);
    test::add_tensor(tensors_, "b", DataType::kUint16, {7}, 2);
    layout_.is_folder = true;
    layout_.files = {{"1.safetensors", render_header({tensors_.schema[0]}, {})},
                     {"2.safetensors", render_header({tensors_.schema[1]}, {})}};
    layout_.index_name = "model.safetensors.index.json";
    layout_.index = R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";
  }
  Status write(const Layout* replaced = nullptr) const {
    return write_checkpoint(folder_ / "out", layout_, tensors_.pointers(), replaced);
  }
  void put(std::string_view name, std::string_view text) const {
    fs::create_directories(fs::path(folder_ / "out") / fs::path(name).parent_path());
    test::write_text((fs::path(folder_ / "out") / name).string(), text);
  }
  std::string get(std::string_view name) const {
    return test::read_text((fs::path(folder_ / "out") / name).string());
  }

  TempFolder folder_;
  Tensors tensors_;
  Layout layout_;
};

TEST_F(FolderWriter, WritesANewFolder) {
  ASSERT_TRUE(write().ok()) << write().message();
  const Result<Checkpoint> checkpoint = Checkpoint::open(folder_ / "out");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->layout(), layout_);
  EXPECT_TRUE(std::ranges::equal(checkpoint->bytes(1), tensors_.bytes[1]));
  EXPECT_EQ(folder_.count(), 1u);
}

TEST_F(FolderWriter, ReplacesAFolderAndKeepsItsOtherFiles) {
  put("1.safetensors", "old");
  put("config.json", "{}");
  put("original/notes.txt", "kept");
  fs::create_symlink("nowhere", folder_.path() / "out/link");
  const Status status = write();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(Checkpoint::open(folder_ / "out").ok());
  EXPECT_EQ(get("config.json"), "{}");
  EXPECT_EQ(get("original/notes.txt"), "kept");
  EXPECT_EQ(fs::read_symlink(folder_.path() / "out/link"), "nowhere");
  EXPECT_EQ(folder_.count(), 1u);
}

TEST_F(FolderWriter, RefusesToLoseForeignShards) {
  put("other.safetensors", "precious");
  const Status status = write();
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("'other.safetensors'"), HasSubstr("would be lost")));
  EXPECT_EQ(get("other.safetensors"), "precious");
  EXPECT_EQ(folder_.count(), 1u);

  Layout replaced;
  replaced.files.push_back({"other.safetensors", ""});
  ASSERT_TRUE(write(&replaced).ok());
  EXPECT_FALSE(fs::exists(folder_.path() / "out/other.safetensors"));
}

TEST_F(FolderWriter, RefusesAFolderThatHasTheNameOfAShard) {
  for (const std::string& name : {layout_.files[0].name, layout_.index_name}) {
    put(name + "/notes.txt", "precious");
    const Status status = write();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(),
                AllOf(HasSubstr("it holds a folder '" + name + "'"), HasSubstr("move the folder")));
    EXPECT_EQ(get(name + "/notes.txt"), "precious");
    EXPECT_EQ(folder_.count(), 1u);
    fs::remove_all(folder_.path() / "out");
  }
}

TEST_F(FolderWriter, KeepsAFolderThatIsOnlyNamedLikeAShard) {
  put("other.safetensors/notes.txt", "precious");
  const Status status = write();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(get("other.safetensors/notes.txt"), "precious");
}

TEST_F(FolderWriter, TrailingSlashIsTheSameFolder) {
  const Status status = write_checkpoint((folder_ / "out") + "/", layout_, tensors_.pointers());
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(Checkpoint::open(folder_ / "out").ok());
  EXPECT_EQ(folder_.count(), 1u);
}

TEST_F(FolderWriter, AnErrorLeavesTheOldFolder) {
  put("1.safetensors", "old");
  layout_.files[1].header = "no header";
  EXPECT_FALSE(write().ok());
  EXPECT_EQ(get("1.safetensors"), "old");
  EXPECT_EQ(folder_.count(), 1u);
}

TEST_F(FolderWriter, RefusesAFileInItsPlace) {
  test::write_text(folder_ / "out", "a file");
  EXPECT_THAT(write().message(), HasSubstr("no folder"));
  EXPECT_EQ(test::read_text(folder_ / "out"), "a file");
}

TEST_F(FolderWriter, RefusesNamesThatLeaveTheFolder) {
  layout_.files[1].name = "../2.safetensors";
  EXPECT_THAT(write().message(), HasSubstr("no plain file name"));
  EXPECT_EQ(folder_.count(), 0u);
}

}  // namespace
}  // namespace sparcl::model
