// Folders of other programs, made by hand: each defect is refused with its reason.
#include "src/model/exchange/folder_format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "src/base/checksum.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/exchange/shard_folder.hpp"
#include "src/model/exchange/zstd_frame.hpp"
#include "src/model/files/delta_file.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::model {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr std::string_view kNew = "Wikipedia";  // its Adler-32 is a published example
constexpr const char* kAdler = "11e60398";

std::vector<std::byte> raw_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// One version of a model with one tensor of nine zeros.
class FolderFormats : public ::testing::Test {
 protected:
  void SetUp() override {
    test::Tensors base;
    base.schema = {{"w", DataType::kUint8, {kNew.size()}}, {"v", DataType::kUint8, {1}}};
    base.bytes = {std::vector<std::byte>(kNew.size()), {std::byte{7}}};
    ASSERT_TRUE(write_safetensors(at("base"), base.schema, base.pointers()).ok());
  }

  std::string at(std::string_view name) const { return folder_ / name; }

  void write() const {
    std::filesystem::remove_all(at("weight_v000007"));
    std::filesystem::create_directory(at("weight_v000007"));
    TensorFile shard{"",
                     {{"w", type_, type_ == DataType::kUint8 ? Shape{frame_.size()} : Shape{1}}},
                     metadata_,
                     {frame_}};
    if (has_unlisted_) {
      shard.schema.push_back({"v", DataType::kUint8, {1}});
      shard.tensors.push_back(raw_bytes("x"));
    }
    const std::vector<std::byte> bytes = *serialise(shard, 0);
    test::write_text(at("weight_v000007/model-00001-of-00001.safetensors"),
                     {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    test::write_text(at("weight_v000007/model.safetensors.index.json"), index_.dump());
  }

  Status read(SparseChange& change, const std::string& base = "base") const {
    const Result<ChangeBase> opened = ChangeBase::open(at(base), **chosen_kernels());
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    const FolderFormat* format = recognise_folder(at("weight_v000007"));
    if (format == nullptr) return Status(Code::kInvalidArgument, "no folder of a layout");
    std::uint64_t bytes = 0;
    return format->read(at("weight_v000007"), *opened, {}, change, bytes);
  }

  // After `make` the folder is refused with this reason.
  void expect_refused(Code code, const char* reason, const std::function<void()>& make) {
    reset();
    make();
    write();
    SparseChange change;
    const Status status = read(change);
    EXPECT_EQ(status.code(), code) << reason << ": " << status.message();
    EXPECT_THAT(status.message(), HasSubstr(reason));
    EXPECT_THAT(status.message(), HasSubstr("weight_v000007"));
  }

  void reset() {
    index_ = {{"metadata",
               {{"version", "000007"},
                {"base_version", "000006"},
                {"delta_encoding", "xor"},
                {"compression_format", "zstd"},
                {"checksum_format", "adler32"}}},
              {"weight_map", {{"w", "model-00001-of-00001.safetensors"}}}};
    metadata_ = {{"w", kAdler}};
    frame_ = *pack_frame(raw_bytes(kNew), 1);
    type_ = DataType::kUint8;
    has_unlisted_ = false;
  }

  using Shape = std::vector<std::uint64_t>;
  test::TempFolder folder_;
  Json index_;
  Metadata metadata_;
  std::vector<std::byte> frame_;
  DataType type_ = DataType::kUint8;
  bool has_unlisted_ = false;  // the shard has a tensor that the index omits
};

TEST_F(FolderFormats, ADeltaOfAnotherProgramIsRead) {
  for (const char* kind : {"xor", "overwrite"}) {
    reset();
    index_["metadata"]["delta_encoding"] = kind;
    if (std::string_view(kind) == "overwrite") {
      std::string content{"\2\0\0\0\0\0\0\0\1\0\0\0Wi", 14};  // two bytes, at 0 and 1
      frame_ = *pack_frame(raw_bytes(content), 1);
      metadata_ = {{"w", fmt::format("{:08x}", adler32(raw_bytes({"Wi\0\0\0\0\0\0\0", 9})))}};
    }
    write();
    SparseChange change;
    const Status status = read(change);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(change.base_version, 6u);
    EXPECT_EQ(change.target_version, 7u);
    ASSERT_EQ(change.tensors.size(), 1u);
    EXPECT_EQ(change.tensors[0].values,
              raw_bytes(std::string_view(kind) == "xor" ? kNew : kNew.substr(0, 2)));
  }
}

TEST_F(FolderFormats, DigestsOfXxh3AreInCanonicalOrder) {
  reset();
  index_["metadata"]["checksum_format"] = "xxh3-128";
  // Of nine bytes "Wikipedia", by the xxhash module of Python.
  metadata_ = {{"w", "33d468536730462c812e3ed6c425b7ea"}};
  write();
  SparseChange change;
  const Status status = read(change);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(FolderFormats, EachDefectOfADeltaFolderIsRefused) {
  const auto about = [this](const char* key) -> Json& { return index_["metadata"][key]; };
  const Code bad = Code::kCorrupt;
  expect_refused(bad, "is not the base of this version", [&] { metadata_ = {{"w", "11e60399"}}; });
  expect_refused(bad, "checksum is missing", [&] { metadata_ = {{"x", kAdler}}; });
  expect_refused(Code::kSystemError, "model-00002-of-00002",
                 [&] { index_["weight_map"]["v"] = "model-00002-of-00002.safetensors"; });
  expect_refused(bad, "weight_map", [&] { index_["weight_map"]["w"] = "../base.safetensors"; });
  expect_refused(bad, "weight_map", [&] { index_["weight_map"]["w"] = "/etc/x.safetensors"; });
  expect_refused(bad, "'v'", [&] { index_["weight_map"]["v"] = index_["weight_map"]["w"]; });
  expect_refused(bad, "'v'", [&] { has_unlisted_ = true; });
  expect_refused(bad, "67108864 bytes, 9 are expected",
                 [&] { frame_ = *pack_frame(std::vector<std::byte>(1 << 26), 1); });
  expect_refused(bad, "no zstd frame", [&] { frame_[0] = std::byte{0}; });
  expect_refused(bad, "follow its zstd frame", [&] { frame_.push_back(std::byte{0}); });
  expect_refused(bad, "damaged", [&] { frame_.pop_back(); });
  expect_refused(bad, "does not name the size", [&] {
    frame_ = raw_bytes({"\x28\xb5\x2f\xfd\x00\x50\x49\x00\x00Wikipedia", 18});
  });
  expect_refused(bad, "list of bytes", [&] {
    type_ = DataType::kFloat32;
    frame_.resize(4);
  });
  expect_refused(bad, "base_version are missing",
                 [&] { index_["metadata"].erase("base_version"); });
  expect_refused(Code::kUnsupported, "blake3", [&] { about("checksum_format") = "blake3"; });
  expect_refused(Code::kUnsupported, "'lz4'", [&] { about("compression_format") = "lz4"; });
  expect_refused(Code::kUnsupported, "'add'", [&] { about("delta_encoding") = "add"; });
  expect_refused(bad, "past its 9 bytes", [&] {
    about("delta_encoding") = "overwrite";
    frame_ = *pack_frame(raw_bytes({"\1\0\0\0\t\0\0\0x", 9}), 1);
  });
  expect_refused(bad, "positions and values take", [&] {
    about("delta_encoding") = "overwrite";
    frame_ = *pack_frame(raw_bytes({"\2\0\0\0\1\0\0\0x", 9}), 1);
  });
}

TEST_F(FolderFormats, AnotherBaseIsRefused) {
  reset();
  write();
  test::Tensors held;
  held.schema = {{"w", DataType::kUint8, {kNew.size()}}};
  held.bytes = {raw_bytes(kNew)};
  ASSERT_TRUE(write_safetensors(at("held"), held.schema, held.pointers()).ok());
  SparseChange change;
  // The XOR of the new bytes with themselves: zeros. An overwrite finds them as they are.
  EXPECT_THAT(read(change, "held").message(), HasSubstr("holds this version already"));
  std::filesystem::create_directory(at("weight_v000005"));
  std::filesystem::copy_file(at("base"), at("weight_v000005/model.safetensors"));
  const Status status = read(change, "weight_v000005");
  EXPECT_EQ(status.code(), Code::kWrongBase);
  EXPECT_THAT(status.message(), HasSubstr("is version 5: give the checkpoint of version 6"));
}

TEST_F(FolderFormats, ShardsOutsideTheIndexAreReportedAndNotRead) {
  reset();
  write();
  test::write_text(at("weight_v000007/model-00009-of-00009.safetensors"), "stale");
  const Result<ChangeBase> base = ChangeBase::open(at("base"), **chosen_kernels());
  ASSERT_TRUE(base.ok());
  FileWatch watch;
  std::vector<std::string> strays;
  watch.on_stray_shards = [&](const std::vector<std::string>& paths) { strays = paths; };
  SparseChange change;
  std::uint64_t bytes = 0;
  ASSERT_TRUE(kHfXorFormat.read(at("weight_v000007"), *base, watch, change, bytes).ok());
  ASSERT_EQ(strays.size(), 1u);
  EXPECT_THAT(strays[0], HasSubstr("model-00009"));
}

TEST_F(FolderFormats, ShardsAreClosedBeforeTheirLimit) {
  test::Tensors base;
  SparseChange change;
  change.base_version = 6;
  change.target_version = 7;
  for (int i = 0; i < 5; ++i) {
    test::add_tensor(base, fmt::format("t{}", i), DataType::kBfloat16, {600}, i);
    change.tensors.push_back(
        {fmt::format("t{}", i), DataType::kBfloat16, Shape{600}, {0, 599}, raw_bytes("abcd")});
  }
  ASSERT_TRUE(write_safetensors(at("base"), base.schema, base.pointers()).ok());
  const Result<ChangeBase> opened = ChangeBase::open(at("base"), **chosen_kernels());
  ASSERT_TRUE(opened.ok());
  for (const FolderFormat* format :
       {&kHfXorFormat, &kHfXorXxh3Format, &kHfOverwriteFormat, &kSkyrlFormat}) {
    std::filesystem::remove_all(at("weight_v000007"));
    std::filesystem::create_directory(at("weight_v000007"));
    FolderWrite out{at("weight_v000007"), "weight_v000007", 40, 0, 0};
    const Status written = format->write(change, *opened, out);
    ASSERT_TRUE(written.ok()) << written.message();
    EXPECT_GT(out.files, 3u);  // shards and the index
    SparseChange again;
    const Status status = read(again);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(again.tensors, change.tensors) << format->name;
    EXPECT_EQ(again.target_version, 7u);
  }
}

// A folder that `format` has written for a change of all bytes of one tensor.
class WrittenFolders : public FolderFormats {
 protected:
  std::string write_as(const FolderFormat& format) {
    const Result<ChangeBase> base = ChangeBase::open(at("base"), **chosen_kernels());
    SparseChange change;
    change.base_version = 6;
    change.target_version = 7;
    change.tensors = {{"w", DataType::kUint8, Shape{kNew.size()}, {}, raw_bytes(kNew)}};
    for (std::uint64_t i = 0; i < kNew.size(); ++i) change.tensors[0].indices.push_back(i);
    const std::string path = at(format.name);
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    FolderWrite out{path, format.name, kShardBytes, 0, 0};
    const Status status = format.write(change, *base, out);
    EXPECT_TRUE(status.ok()) << status.message();
    return path;
  }

  Status read_as(const FolderFormat& format, SparseChange& change) const {
    const Result<ChangeBase> base = ChangeBase::open(at("base"), **chosen_kernels());
    std::uint64_t bytes = 0;
    return format.read(at(format.name), *base, {}, change, bytes);
  }
};

TEST_F(WrittenFolders, EachDefectOfASkyrlFolderIsRefused) {
  const auto expect = [this](const char* reason, const std::function<void(Json&)>& make) {
    const std::string path = write_as(kSkyrlFormat) + "/manifest.json";
    Json manifest = Json::parse(test::read_text(path));
    make(manifest);
    test::write_text(path, manifest.dump());
    SparseChange change;
    EXPECT_THAT(read_as(kSkyrlFormat, change).message(), HasSubstr(reason));
  };
  const auto record = [](Json& manifest) -> Json& { return manifest["tensors"][0]; };
  expect("payload_file", [&](Json& m) { record(m)["payload_file"] = "../base"; });
  expect("No such file", [&](Json& m) { record(m)["payload_file"] = "none.safetensors"; });
  expect("no list of bytes 'x'", [&](Json& m) { record(m)["payload_key"] = "x"; });
  expect("1000 bytes, 9 in the base", [&](Json& m) { record(m)["uncompressed_num_bytes"] = 1000; });
  expect("is not the base of this version", [&](Json& m) { record(m)["checksum"] = "00"; });
  expect("checksums of format 'crc'", [&](Json& m) { record(m)["checksum_algorithm"] = "crc"; });
  expect("listed twice", [&](Json& m) { m["tensors"].push_back(record(m)); });
  expect("base_version is missing", [&](Json& m) { m["base_version"] = "6"; });
  expect("no JSON object", [&](Json& m) {
    Json deep = 1;
    for (int i = 0; i < 9; ++i) deep = Json::array({deep});
    m["deep"] = deep;
  });
}

TEST_F(WrittenFolders, APickleOfArc3IsRefused) {
  const std::string path = write_as(kArc2Format) + "/model.safetensors";
  TensorFile file = *parse_tensor_file(raw_bytes(test::read_text(path)));
  const std::vector<std::byte> frame = file.tensors[0];
  const auto replace = [&](std::vector<std::byte> payload) {
    file.schema[0].shape = {payload.size()};
    file.tensors[0] = std::move(payload);
    const std::vector<std::byte> bytes = *serialise(file, 0);
    test::write_text(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  SparseChange change;
  replace(raw_bytes({"ARC3_ENVELOPE\0\x80\x05.", 17}));
  const Status status = read_as(kArc2Format, change);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("pickle"));
  const TensorFile inner{
      "", {{"tensor", DataType::kUint8, {frame.size()}}}, {{"fallback_name", "arc_v2"}}, {frame}};
  replace(*serialise(inner, 0));
  EXPECT_TRUE(read_as(kArc2Format, change).ok());
  EXPECT_EQ(change.tensors[0].values, raw_bytes(kNew));
}

// Whatever happens to the bytes of a file: a refusal, or the change itself, because its checksum
// is verified.
TEST_F(WrittenFolders, SurviveMutations) {
  std::mt19937_64 random(5);
  for (const FolderFormat* format :
       {&kHfXorFormat, &kHfXorXxh3Format, &kHfOverwriteFormat, &kSkyrlFormat, &kArc2Format}) {
    write_as(*format);
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& entry : std::filesystem::directory_iterator(at(format->name)))
      files.emplace_back(entry.path(), test::read_text(entry.path()));
    for (int i = test::by_tier(300, 30000); i > 0; --i) {
      auto [path, text] = files[random() % files.size()];
      for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
        text[random() % text.size()] ^= static_cast<char>(1 + random() % 255);
      if (random() % 8 == 0) text.resize(random() % text.size());
      test::write_text(path, text);
      SparseChange change;
      if (read_as(*format, change).ok() && !change.tensors.empty()) {
        ASSERT_EQ(change.tensors.size(), 1u) << format->name;
        EXPECT_EQ(change.tensors[0].values, raw_bytes(kNew)) << format->name;
      }
      for (const auto& [whole, good] : files) test::write_text(whole, good);
    }
  }
}

}  // namespace
}  // namespace sparcl::model
