// Foreign files are hostile input: each defect is refused with its reason, and no mutation does
// worse than that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "src/model/exchange/exchange_format.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::model {
namespace {

using ::testing::HasSubstr;

SparseChange example_change() {
  SparseChange change;
  change.tensors.push_back({"a",
                            DataType::kBfloat16,
                            std::vector<std::uint64_t>{300, 300},
                            {0, 5, 70000},
                            std::vector<std::byte>(6)});
  change.tensors.push_back({"b",
                            DataType::kBfloat16,
                            std::vector<std::uint64_t>{10},
                            {3, 9},
                            std::vector<std::byte>(4)});
  for (TensorChange& tensor : change.tensors) {
    for (std::size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] = static_cast<std::byte>(i + 1);
  }
  return change;
}

TensorFile written(const ExchangeFormat& format, const SparseChange& change = example_change()) {
  Result<std::vector<TensorFile>> files = format.write(change);
  EXPECT_TRUE(files.ok());
  return std::move(files->front());
}

Status refusal(const ExchangeFormat& format, const TensorFile& file) {
  SparseChange change;
  return format.read(file, change);
}

std::string& metadata(TensorFile& file, std::string_view key) {
  return const_cast<std::string&>(*file.find_metadata(key));
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  ASSERT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
}

TEST(ExchangeFormats, RoundTripThroughBytes) {
  for (const ExchangeFormat* format : exchange_formats()) {
    const Result<std::vector<std::byte>> bytes = serialise(written(*format), format->zstd_level);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(is_zstd(*bytes), format->zstd_level > 0);
    const Result<TensorFile> file = parse_tensor_file(*bytes);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_EQ(recognise(*file, is_zstd(*bytes)), format) << format->name;
    SparseChange change;
    ASSERT_TRUE(format->read(*file, change).ok()) << format->name;
    Schema schema;
    for (const TensorChange& tensor : example_change().tensors)
      schema.push_back({tensor.name, tensor.datatype, *tensor.shape});
    ASSERT_TRUE(match_schema(schema, change).ok());
    EXPECT_TRUE(change.tensors == example_change().tensors) << format->name;
  }
}

TEST(ExchangeFormats, WideGapsTakeFourBytes) {
  SparseChange change;
  change.tensors.push_back({"w",
                            DataType::kInt8,
                            std::vector<std::uint64_t>{5'000'000'000},
                            {65535, 65536, 4'000'000'000},
                            std::vector<std::byte>(3)});
  const TensorFile file = written(kDeltasFormat, change);
  SparseChange again;
  ASSERT_TRUE(kDeltasFormat.read(file, again).ok());
  EXPECT_TRUE(again.tensors == change.tensors);
  EXPECT_EQ(kIndicesFormat.write(change).status().code(), Code::kUnsupported);  // int32
  again = {};
  ASSERT_TRUE(kCooFormat.read(written(kCooFormat, change), again).ok());  // int64
  EXPECT_EQ(again.tensors[0].indices, change.tensors[0].indices);
}

struct Defect {
  const char* reason;
  std::function<void(TensorFile&)> make;
};

TEST(ExchangeFormats, EachDefectOfListsIsRefused) {
  const auto set = [](std::size_t tensor, std::size_t at, std::int32_t value) {
    return [=](TensorFile& file) { std::memcpy(file.tensors[tensor].data() + 4 * at, &value, 4); };
  };
  const std::vector<Defect> defects{
      {"must ascend", set(0, 1, 70000)},
      {"must ascend", set(0, 2, 4)},
      {"negative", set(0, 0, -1)},
      {"one length",
       [](TensorFile& file) {
         file.schema[0].shape = {1, 3};
       }},
      {"one length", [](TensorFile& file) { file.schema[2].shape = {2}; }},
      {"I32 or I64", [](TensorFile& file) { file.schema[0].datatype = DataType::kFloat32; }},
      {"without indices", [](TensorFile& file) { file.schema[0].name = "c.indices"; }},
      {"neither a list", [](TensorFile& file) { file.schema[0].name = "a"; }},
      {"hexadecimal",
       [](TensorFile& file) { file.metadata.emplace_back("sparcl.attachment", "0g"); }},
      {"attachment",
       [](TensorFile& file) { file.metadata.emplace_back("sparcl.attachment", "0100"); }},
      {"versions", [](TensorFile& file) { file.metadata.emplace_back("sparcl.versions", "1,2"); }},
  };
  for (const Defect& defect : defects) {
    TensorFile file = written(kCooFormat);
    defect.make(file);
    const Status status = refusal(kCooFormat, file);
    EXPECT_EQ(status.code(), Code::kCorrupt) << defect.reason;
    EXPECT_THAT(status.message(), HasSubstr(defect.reason));
  }
}

TEST(ExchangeFormats, EachDefectOfAPackedFileIsRefused) {
  const auto params = [](std::string from, std::string to) {
    return [=](TensorFile& file) { replace(metadata(file, "params"), from, to); };
  };
  const std::vector<Defect> defects{
      {"no JSON", params("[", "{")},
      {"incomplete", params("\"pos_end\":12", "\"pos_end\":-12")},
      {"incomplete", params("\"val_end\"", "\"val_fin\"")},
      {"incomplete", params("[300,300]", "[300,\"300\"]")},
      {"incomplete", params("[300,300]", "300")},
      {"but the values are", params("bfloat16", "float16")},
      {"behind the one before", params("\"pos_start\":12", "\"pos_start\":0")},
      {"behind the one before", params("\"val_start\":3", "\"val_start\":2")},
      {"behind the one before", params("\"pos_end\":20", "\"pos_end\":2000")},
      {"bytes of positions", params("\"pos_width\":4", "\"pos_width\":2")},
      {"bytes of positions", params("\"pos_width\":4", "\"pos_width\":0")},
      {"comes twice", params("\"name\":\"b\"", "\"name\":\"a\"")},
      {"past its 3 elements", params("[300,300]", "[3]")},
      {"2^63", params("[300,300]", "[4294967296,4294967296]")},
      {"no list of parameters",
       [](TensorFile& file) {
         std::erase_if(file.metadata, [](const auto& e) { return e.first == "params"; });
       }},
      {"must ascend", [](TensorFile& file) { std::swap(file.tensors[1][0], file.tensors[1][4]); }},
      {"negative", [](TensorFile& file) { file.tensors[1][11] = std::byte{0x80}; }},
      {"list of bytes",
       [](TensorFile& file) {
         file.schema[1].shape = {2, 10};
       }},
      {"behind those of the last",
       [](TensorFile& file) {
         file.tensors[1].resize(24);
         file.schema[1].shape = {24};
       }},
  };
  for (const Defect& defect : defects) {
    TensorFile file = written(kIndicesFormat);
    defect.make(file);
    const Status status = refusal(kIndicesFormat, file);
    EXPECT_FALSE(status.ok()) << defect.reason;
    EXPECT_THAT(status.message(), HasSubstr(defect.reason));
  }
  TensorFile file = written(kDeltasFormat);
  metadata(file, "encoding") = "varints";
  EXPECT_EQ(refusal(kDeltasFormat, file).code(), Code::kUnsupported);
}

TEST(ExchangeFormats, ABombIsNotUnpacked) {
  TensorFile file;
  file.schema = {{"a.values", DataType::kUint8, {std::uint64_t{200} << 20}}};
  file.tensors.emplace_back(std::size_t{200} << 20);
  const Result<std::vector<std::byte>> bytes = serialise(file, 3);
  ASSERT_TRUE(bytes.ok());
  ASSERT_LT(bytes->size(), 100'000u);
  const Status status = parse_tensor_file(*bytes).status();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr("unpacks to more"));
}

TEST(ExchangeFormats, AreNotMetOutsideOfTheBase) {
  SparseChange change = example_change();
  Schema schema{{"a", DataType::kBfloat16, {300, 300}}, {"b", DataType::kBfloat16, {10}}};
  EXPECT_TRUE(match_schema(schema, change).ok());
  schema[0].shape = {70000};
  change.tensors[0].shape.reset();
  EXPECT_THAT(match_schema(schema, change).message(), HasSubstr("past its 70000 elements"));
  schema[0] = {"a", DataType::kFloat16, {300, 300}};
  EXPECT_EQ(match_schema(schema, change).code(), Code::kMismatch);
  schema[0].name = "c";
  EXPECT_EQ(match_schema(schema, change).code(), Code::kMismatch);
  change.tensors[1].name = "a";
  EXPECT_THAT(match_schema(schema, change).message(), HasSubstr("comes twice"));
}

// Whatever happens to the bytes: a refusal, or a change that is in order.
TEST(ExchangeFormats, SurviveMutations) {
  std::mt19937_64 random(5);
  for (const ExchangeFormat* format : exchange_formats()) {
    const std::vector<std::byte> good = *serialise(written(*format), format->zstd_level);
    std::size_t accepted = 0;
    const int rounds = test::by_tier(3000, 300000);
    for (int i = 0; i < rounds; ++i) {
      std::vector<std::byte> bytes = good;
      for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
        bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
      if (random() % 8 == 0) bytes.resize(random() % bytes.size());
      const Result<TensorFile> file = parse_tensor_file(bytes);
      const ExchangeFormat* found = file.ok() ? recognise(*file, false) : nullptr;
      SparseChange change;
      if (found == nullptr || !found->read(*file, change).ok()) continue;
      ++accepted;
      for (const TensorChange& tensor : change.tensors) {
        EXPECT_TRUE(check_ascending(tensor).ok());
        EXPECT_EQ(tensor.values.size(), tensor.indices.size() * element_bytes(tensor.datatype));
      }
    }
    EXPECT_LT(accepted, static_cast<std::size_t>(rounds));
  }
}

}  // namespace
}  // namespace sparcl::model
