#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::model {
namespace {

using test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Status refusal(std::string_view json, std::string_view data = {}) {
  TempFolder folder;
  test::write_text(folder / "x.safetensors", test::file_of(json, data));
  Status status = Checkpoint::open(folder / "x.safetensors").status();
  EXPECT_TRUE(status.ok() || status.message().find("x.safetensors: ") != std::string::npos)
      << "the file is not named: " << status.message();
  return status;
}

struct TypeRow {
  const char* name;
  std::size_t bytes;
};

class EachDataType : public ::testing::TestWithParam<TypeRow> {};

TEST_P(EachDataType, IsRead) {
  TempFolder folder;
  const auto [name, bytes] = GetParam();
  const std::string data(6 * bytes, '\x5a');
  test::write_text(
      folder / "x.safetensors",
      test::file_of(fmt::format(R"({{"t":{{"dtype":"{}","shape":[2,3],"data_offsets":[0,{}]}}}})",
                                name, data.size()),
                    data));
  const Result<Checkpoint> file = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(info(file->schema()[0].datatype).safetensors, name);
  EXPECT_THAT(file->schema()[0].shape, ElementsAre(2, 3));
  ASSERT_EQ(file->bytes(0).size(), data.size());
  EXPECT_EQ(std::memcmp(file->bytes(0).data(), data.data(), data.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(SafetensorsReader, EachDataType,
                         ::testing::Values(TypeRow{"BOOL", 1}, TypeRow{"U8", 1}, TypeRow{"I8", 1},
                                           TypeRow{"U16", 2}, TypeRow{"I16", 2}, TypeRow{"F16", 2},
                                           TypeRow{"BF16", 2}, TypeRow{"U32", 4}, TypeRow{"I32", 4},
                                           TypeRow{"F32", 4}, TypeRow{"U64", 8}, TypeRow{"I64", 8},
                                           TypeRow{"F64", 8}, TypeRow{"F8_E4M3", 1},
                                           TypeRow{"F8_E5M2", 1}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(SafetensorsReader, ReadsScalarsEmptyTensorsAndMetadata) {
  TempFolder folder;
  test::write_text(
      folder / "x.safetensors",
      test::file_of(
          R"({"__metadata__":{"step":"5","format":"pt"},"e":{"dtype":"F64","shape":[0,9],"data_offsets":[0,0]},)"
          R"("s":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}   )",
          "A"));
  const Result<Checkpoint> file = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_THAT(file->metadata(0), ElementsAre(Pair("step", "5"), Pair("format", "pt")));
  ASSERT_EQ(file->schema().size(), 2u);
  EXPECT_EQ(file->bytes(0).size(), 0u);
  EXPECT_NE(file->pointers()[0], nullptr);
  EXPECT_EQ(file->bytes(1)[0], std::byte{'A'});
  EXPECT_EQ(file->byte_count(), 1u);
}

TEST(SafetensorsReader, ReadsAFileWithoutTensors) {
  EXPECT_TRUE(refusal("{}").ok());
  EXPECT_TRUE(refusal("{}      ").ok());
}

TEST(SafetensorsReader, ListsTensorsInTheOrderOfTheirData) {
  TempFolder folder;
  test::write_text(folder / "x.safetensors",
                   test::file_of(R"({"late":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                                 R"("early":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                                 "abc"));
  const Result<Checkpoint> file = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->schema()[0].name, "early");
  EXPECT_EQ(file->schema()[1].name, "late");
  EXPECT_EQ(file->bytes(1)[0], std::byte{'c'});
}

TEST(SafetensorsReader, KeysAreComparedDecoded) {
  const Status status = refusal(
      R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"\u0061":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})");
  EXPECT_THAT(status.message(), HasSubstr("tensor 'a' is listed twice"));
}

struct Refusal {
  const char* name;
  std::string json;
  std::string data;
  const char* reason;
};

std::string header_of(std::string_view fields) { return fmt::format(R"({{"t":{{{}}}}})", fields); }

std::vector<Refusal> refusals() {
  const std::string good = R"("dtype":"U8","shape":[2],"data_offsets":[0,2])";
  return {
      {"NoObject", "[]", "", "must begin with '{'"},
      {"LeadingSpace", " {}", "", "must begin with '{'"},
      {"ByteOrderMark", "\xef\xbb\xbf{}", "", "must begin with '{'"},
      {"EmptyHeader", "", "", "must begin with '{'"},
      {"Nul", std::string("{}\0\0", 4), "", "is NUL"},
      {"TextAfterTheEnd", "{} x", "", "no valid JSON"},
      {"CutJson", R"({"t":{"dtype":)", "", "no valid JSON"},
      {"TrailingComma", R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},})", "ab",
       "no valid JSON"},
      {"BadUtf8InAName", "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", "a",
       "UTF-8"},
      {"EmptyName", R"({"":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "a",
       "header: a tensor's name is empty"},
      {"LoneSurrogate", R"({"\ud800":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})", "a",
       "surrogate"},
      {"Depth", R"({"t":{"dtype":"U8","shape":[[[[[[2]]]]]],"data_offsets":[0,2]}})", "ab",
       "shape must hold integers that are not negative, not an array"},
      {"DepthInAnUnknownField", R"({"t":{"x":{"y":{"z":1}}}})", "", "unknown field 'x'"},
      {"TensorIsANumber", R"({"t":3})", "",
       "tensor 't': its value must be an object, not the number 3"},
      {"TensorIsNull", R"({"t":null})", "", "must be an object, not null"},
      {"DuplicateTensor",
       R"({"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
       "", "tensor 't' is listed twice"},
      {"DuplicateField", header_of(good + R"(,"shape":[2])"), "ab",
       "tensor 't': shape is there twice"},
      {"UnknownField", header_of(good + R"(,"stride":[2])"), "ab", "unknown field 'stride'"},
      {"NoDtype", header_of(R"("shape":[2],"data_offsets":[0,2])"), "ab",
       "tensor 't': dtype is missing"},
      {"NoShape", header_of(R"("dtype":"U8","data_offsets":[0,2])"), "ab",
       "tensor 't': shape is missing"},
      {"NoOffsets", header_of(R"("dtype":"U8","shape":[2])"), "ab",
       "tensor 't': data_offsets is missing"},
      {"DtypeIsANumber", header_of(R"("dtype":8,"shape":[2],"data_offsets":[0,2])"), "ab",
       "dtype must be a string, not the number 8"},
      {"ShapeIsAString", header_of(R"("dtype":"U8","shape":"2","data_offsets":[0,2])"), "ab",
       "must be arrays of integers, not the string '2'"},
      {"NegativeShape", header_of(R"("dtype":"U8","shape":[-2],"data_offsets":[0,2])"), "ab",
       "not -2 (negative)"},
      {"FractionInShape", header_of(R"("dtype":"U8","shape":[2.0],"data_offsets":[0,2])"), "ab",
       "not 2.0 (no 64-bit integer)"},
      {"ExponentInShape", header_of(R"("dtype":"U8","shape":[2e0],"data_offsets":[0,2])"), "ab",
       "no 64-bit integer"},
      {"ShapePast64Bits",
       header_of(R"("dtype":"U8","shape":[18446744073709551618],"data_offsets":[0,2])"), "ab",
       "no 64-bit integer"},
      {"ShapeProductOverflows",
       header_of(R"("dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,2])"), "ab",
       "passes 2^63 bytes"},
      {"NegativeOffset", header_of(R"("dtype":"U8","shape":[2],"data_offsets":[-1,1])"), "ab",
       "data_offsets must hold integers"},
      {"OneOffset", header_of(R"("dtype":"U8","shape":[2],"data_offsets":[2])"), "ab",
       "two numbers, not 1"},
      {"ThreeOffsets", header_of(R"("dtype":"U8","shape":[2],"data_offsets":[0,2,2])"), "ab",
       "two numbers, not more"},
      {"OffsetsBackwards", header_of(R"("dtype":"U8","shape":[2],"data_offsets":[2,0])"), "ab",
       "end before they begin"},
      {"OffsetsDoNotFitTheShape", header_of(R"("dtype":"F32","shape":[2],"data_offsets":[0,2])"),
       "ab", "hold 2 bytes, but the shape and F32 need 8"},
      {"GapAtTheFront", header_of(R"("dtype":"U8","shape":[2],"data_offsets":[1,3])"), "abc",
       "leave a gap: the tensor before ends at 0"},
      {"Gap",
       R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
       "abc", "tensor 'b': data_offsets [2, 3] leave a gap"},
      {"Overlap",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       "abc", "tensor 'b': data_offsets [1, 3] overlap"},
      {"SamePlace",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       "ab", "overlap"},
      {"BeyondTheData", header_of(R"("dtype":"U8","shape":[3],"data_offsets":[0,3])"), "ab",
       "need 3 bytes, but 2 follow the header: the file is cut"},
      {"BytesAfterTheData", header_of(good), "abc",
       "need 2 bytes, but 3 follow the header: the file is longer"},
      {"MetadataIsAString", R"({"__metadata__":"x"})", "",
       "__metadata__: its value must be an object"},
      {"MetadataHoldsANumber", R"({"__metadata__":{"step":5}})", "",
       "__metadata__: the value of 'step' must be a string, not the number 5"},
      {"MetadataHoldsAnObject", R"({"__metadata__":{"step":{}}})", "",
       "must be a string, not an object"},
      {"DuplicateMetadataKey", R"({"__metadata__":{"a":"1","a":"2"}})", "", "the key 'a' twice"},
      {"DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", "",
       "__metadata__: it is there twice"},
  };
}

class BadHeader : public ::testing::TestWithParam<Refusal> {};

TEST_P(BadHeader, IsRefusedWithTheReason) {
  const Status status = refusal(GetParam().json, GetParam().data);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(SafetensorsReader, BadHeader, ::testing::ValuesIn(refusals()),
                         [](const auto& row) { return std::string(row.param.name); });

std::string typed_header(const std::string& type, const std::string& shape, std::uint64_t bytes) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":[{}],"data_offsets":[0,{}]}}}})", type, shape,
                     bytes);
}

// All types of safetensors 0.8 that have no numbers here, with the bytes that 8 elements take.
TEST(SafetensorsReader, OpaqueTypesAreBytesAndKeepTheirNames) {
  const std::vector<std::pair<std::string, std::uint64_t>> types{
      {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"F8_E8M0", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64}};
  for (const auto& [type, bytes] : types) {
    const Result<Header> header = parse_header(typed_header(type, "2,4", bytes));
    ASSERT_TRUE(header.ok()) << header.status().message();
    const TensorSchema& tensor = header->tensors[0];
    EXPECT_EQ(file_type(tensor), type);
    EXPECT_EQ(*element_count(tensor) * element_bytes(tensor.datatype), bytes);
    EXPECT_EQ(describe_kind(tensor), type + " [2, 4]");
    EXPECT_THAT(render_header(header->tensors, {}),
                HasSubstr("\"dtype\":\"" + type + "\",\"shape\":[2,4]"));
    EXPECT_EQ(*parse_schema(serialise(header->tensors)), header->tensors);
    EXPECT_NE(schema_hash(header->tensors), schema_hash({{"t", DataType::kUint8, {bytes}}}));
    const Status status = parse_header(typed_header(type, "2,4", bytes + 1)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), AllOf(HasSubstr("tensor 't'"), HasSubstr(type)));
  }
  for (const char* type : {"F4", "F6_E2M3"}) {
    EXPECT_THAT(parse_header(typed_header(type, "3", 2)).status().message(),
                HasSubstr("no whole number of bytes"))
        << type;
  }
}

TEST(SafetensorsReader, TypesOfLaterVersionsAreBytesToo) {
  const Result<Header> header = parse_header(typed_header("F3_E1M1", "5,7", 11));
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(file_type(header->tensors[0]), "F3_E1M1");
  EXPECT_EQ(*element_count(header->tensors[0]), 11u);
  EXPECT_EQ(*parse_schema(serialise(header->tensors)), header->tensors);
  for (const char* name : {"", "F4\\n", "a b", "012345678901234567890123456789012"}) {
    const Status status = parse_header(typed_header(name, "1", 1)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_THAT(status.message(), HasSubstr("is no name of a data type"));
  }
}

// A schema comes from peers as well.
TEST(SafetensorsReader, OpaqueTypesThatNoFileCanHaveAreRefused) {
  const auto with = [](OpaqueType type, DataType datatype = DataType::kUint8,
                       std::optional<TensorSlice> slice = {}) {
    return validate({TensorSchema{"t", datatype, {8}, std::move(slice), std::move(type)}});
  };
  EXPECT_TRUE(with({"F4", 4}).ok());
  EXPECT_FALSE(with({"F4", 5}).ok());
  EXPECT_FALSE(with({"U8", 8}).ok()) << "it has numbers: two schemas of one file";
  EXPECT_FALSE(with({"no name", 8}).ok());
  EXPECT_FALSE(with({"F9", std::uint64_t{1} << 63}).ok());
  EXPECT_FALSE(with({"F9", 8}, DataType::kInt8).ok());
  EXPECT_FALSE(with({"F9", 8}, DataType::kUint8, TensorSlice{{0}, {4}}).ok());
}

TEST(SafetensorsReader, MetadataMayBeNull) {
  const Result<Header> header =
      parse_header(R"({"__metadata__":null,"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_TRUE(header->metadata.empty());
  EXPECT_FALSE(parse_header(R"({"__metadata__":null,"__metadata__":{}})").ok());
  EXPECT_FALSE(parse_header(R"({"__metadata__":{"a":null}})").ok());
  EXPECT_FALSE(parse_header(R"({"t":null})").ok());
}

TEST(SafetensorsReader, RefusesLengthsBeyondTheFile) {
  TempFolder folder;
  const auto open_text = [&](std::string_view text) {
    test::write_text(folder / "x.safetensors", text);
    return Checkpoint::open(folder / "x.safetensors").status();
  };
  EXPECT_THAT(open_text("").message(), HasSubstr("0 bytes are too few"));
  EXPECT_THAT(open_text("1234567").message(), HasSubstr("7 bytes are too few"));
  EXPECT_THAT(open_text(std::string("\x03\0\0\0\0\0\0\0{}", 10)).message(),
              HasSubstr("length is 3, but only 2 bytes follow"));
  EXPECT_THAT(open_text(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)).message(),
              HasSubstr("the format allows"));
  EXPECT_THAT(open_text(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)).message(),
              HasSubstr("100000001"));
}

TEST(SafetensorsReader, NamesWhatCannotBeOpened) {
  TempFolder folder;
  const Status missing = Checkpoint::open(folder / "none.safetensors").status();
  EXPECT_EQ(missing.code(), Code::kSystemError);
  EXPECT_THAT(missing.message(), AllOf(HasSubstr("none.safetensors"), HasSubstr("No such file")));
  EXPECT_THAT(Checkpoint::open("/dev/null").status().message(), HasSubstr("no regular file"));
}

TEST(SafetensorsReader, WritingToItsMemoryLeavesTheFileAlone) {
  TempFolder folder;
  const std::string text =
      test::file_of(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab");
  test::write_text(folder / "x.safetensors", text);
  Result<Checkpoint> file = Checkpoint::open(folder / "x.safetensors");
  ASSERT_TRUE(file.ok());
  file->mutable_pointers()[0][0] = std::byte{'z'};
  EXPECT_EQ(file->bytes(0)[0], std::byte{'z'});
  EXPECT_EQ(test::read_text(folder / "x.safetensors"), text);
}

TEST(SafetensorsReader, ReadsTheTraces) {
  const std::string trace = test::trace_folder();
  if (trace.empty()) GTEST_SKIP() << test::kNoTrace;
  std::vector<std::string> files = test::sorted_files(trace + "/weights");
  for (std::string& file : test::sorted_files(trace + "/grads")) files.push_back(std::move(file));
  ASSERT_FALSE(files.empty());
  for (const std::string& path : files) {
    const Result<Checkpoint> file = Checkpoint::open(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_GT(file->schema().size(), 10u);
    TempFolder folder;
    ASSERT_TRUE(
        write_checkpoint(folder / "copy.safetensors", file->layout(), file->pointers()).ok());
    EXPECT_EQ(test::read_text(folder / "copy.safetensors"), test::read_text(path)) << path;
  }
}

}  // namespace
}  // namespace sparcl::model
