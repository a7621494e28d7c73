// The header of a safetensors file: refused, or tensors that lie side by side and can be written as
// a header again.

#include "src/model/safetensors_header.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

void run(std::span<const std::byte> input) {
  const Result<model::Header> header = model::parse_header(text_of(input));
  if (!header.ok()) {
    require(!header.status().message().empty(), "a refusal has a reason");
    return;
  }
  require(model::validate(header->tensors).ok(), "accepted tensors are valid");
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < header->tensors.size(); ++i) {
    require(header->offsets[i] == at, "tensors lie side by side");
    at += *model::element_count(header->tensors[i]) * element_bytes(header->tensors[i].datatype);
  }
  require(header->data_bytes == at, "the data end where the last tensor does");
  const Result<model::Header> again =
      model::parse_header(model::render_header(header->tensors, header->metadata));
  require(again.ok(), "a rendered header can be read: " + again.status().message());
  require(again->tensors == header->tensors && again->metadata == header->metadata,
          "a rendered header says the same");
}

std::vector<Bytes> seeds() {
  const model::Schema schema{{"model.embed.weight", DataType::kBfloat16, {4, 3}},
                             {"model.norm", DataType::kFloat32, {3}},
                             {"step", DataType::kInt64, {}},
                             {"empty", DataType::kUint8, {0}}};
  return {
      bytes_of(model::render_header(schema, {{"format", "pt"}, {"step", "12"}})),
      bytes_of(model::render_header(schema, {})), bytes_of(model::render_header({}, {})),
      bytes_of(
          R"({"b":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"a\u00e9":{"shape":[1,1],"dtype":"BOOL","data_offsets":[2,3]}})")};
}

const std::vector<std::string> kWords{"__metadata__",
                                      "\"dtype\":",
                                      "\"shape\":",
                                      "\"data_offsets\":",
                                      "\"BF16\"",
                                      "\"F32\"",
                                      "\"F8_E5M2\"",
                                      "\"F4\"",
                                      "\"I64\"",
                                      "\"U8\"",
                                      "\"BOOL\"",
                                      "{\"\":",
                                      "[0,0]",
                                      "[[[[",
                                      "{{{{",
                                      "null",
                                      "true",
                                      "-1",
                                      "0.5",
                                      "1e9",
                                      "\\u0000",
                                      "\\ud800",
                                      "\\udc00",
                                      "\xff",
                                      "\xef\xbb\xbf",
                                      "\xc3\xa9",
                                      "4294967296",
                                      "9223372036854775808",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "},\"",
                                      "],",
                                      "  "};

const Registration registration({"safetensors", run, seeds, nullptr, kWords});

}  // namespace
}  // namespace sparcl::fuzz
