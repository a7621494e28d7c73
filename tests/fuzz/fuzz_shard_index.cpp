// The index of a folder of shards: refused, or plain names that can be written as an index again.

#include <nlohmann/json.hpp>

#include "src/model/shard_index.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

std::string rendered(const model::ShardIndex& index) {
  nlohmann::json map = nlohmann::json::object();
  for (const auto& [tensor, file] : index.weight_map) map[tensor] = file;
  return nlohmann::json{{"weight_map", map}}.dump();
}

void run(std::span<const std::byte> input) {
  const Result<model::ShardIndex> index = model::parse_shard_index(text_of(input));
  if (!index.ok()) {
    require(!index.status().message().empty(), "a refusal has a reason");
    return;
  }
  for (const std::string& file : index->files) {
    require(file.find_first_of("/\\") == file.npos && file.ends_with(".safetensors"),
            "no file lies outside of the folder: " + file);
  }
  const Result<model::ShardIndex> again = model::parse_shard_index(rendered(*index));
  require(again.ok(), "a rendered index can be read: " + again.status().message());
  require(again->weight_map == index->weight_map && again->files == index->files,
          "a rendered index says the same");
}

std::vector<Bytes> seeds() {
  return {
      bytes_of(
          R"({"metadata":{"total_size":12},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})"),
      bytes_of(R"({"weight_map":{}})"),
      bytes_of(
          R"({"weight_map":{"z":"m.safetensors","a\u00e9":"m.safetensors"},"x":[{"y":[1,2.5,null,true]}]})")};
}

const std::vector<std::string> kWords{"\"weight_map\":",
                                      "\"metadata\":",
                                      ".safetensors\"",
                                      "\"total_size\":",
                                      "../",
                                      "/",
                                      "\\u0000",
                                      "\\ud800",
                                      "{\"\":",
                                      "[[[[",
                                      "{{{{",
                                      "null",
                                      "1e999",
                                      "\xff",
                                      "\"a\":\"b.safetensors\","};

const Registration registration({"shard_index", run, seeds, nullptr, kWords});

}  // namespace
}  // namespace sparcl::fuzz
