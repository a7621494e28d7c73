// What travels with a delta of files: refused, or written as the same bytes again; and applied to a
// base, refused or a layout that can be opened.

#include <algorithm>

#include "src/model/attachment.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

model::Layout folder(const std::vector<model::Schema>& shards, const model::Metadata& metadata) {
  model::Layout layout;
  layout.is_folder = true;
  layout.index_name = "model.safetensors.index.json";
  std::string map;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = "m-" + std::to_string(i) + ".safetensors";
    layout.files.push_back({name, model::render_header(shards[i], metadata)});
    for (const model::TensorSchema& tensor : shards[i])
      map += (map.empty() ? "\"" : ",\"") + tensor.name + "\":\"" + name + "\"";
  }
  layout.index = "{\"weight_map\":{" + map + "}}";
  return layout;
}

const model::TensorSchema kA{"a", DataType::kBfloat16, {3}};
const model::TensorSchema kB{"b", DataType::kFloat32, {2, 2}};
const model::TensorSchema kC{"c", DataType::kInt8, {}};

const std::vector<model::Layout>& bases() {
  static const std::vector<model::Layout> all{model::single_file_layout({kA, kB}, {{"step", "1"}}),
                                              folder({{kA}, {kB}}, {{"k", "v"}})};
  return all;
}

void run(std::span<const std::byte> input) {
  const Result<model::Attachment> attachment = model::parse_attachment(input);
  if (!attachment.ok()) return;
  require(std::ranges::equal(model::serialise(*attachment), input) || attachment->empty(),
          "an attachment has one form");
  for (const model::PackedFile& file : attachment->side_files) {
    if (file.bytes > (std::uint64_t{1} << 20)) continue;  // allowed, and slow
    const Result<model::SideFile> content = model::unpack(file);
    require(!content.ok() || content->content.size() == file.bytes,
            "a file has the size that it says");
  }
  if (!attachment->layout) return;
  for (const model::Layout& base : bases()) {
    const Result<model::ChangedLayout> changed =
        model::apply_layout_change(*attachment->layout, base);
    if (changed.ok())
      require(model::layout_schema(changed->layout).ok(), "an accepted layout can be opened");
  }
}

std::vector<Bytes> seeds() {
  std::vector<model::Layout> targets = bases();
  targets.push_back(model::single_file_layout({kA, kB}, {{"step", "2"}, {"new", "\xc3\xa9"}}));
  targets.push_back(model::single_file_layout({kA, kC}, {}));
  targets.push_back(folder({{kB, kC}, {kA}}, {}));
  const model::SideFile config{"config.json",
                               bytes_of("{\"a\": 1, \"b\": [1, 1, 1, 1, 1, 1, 1, 1]}")};
  const Result<model::PackedFile> packed = model::pack(config);
  std::vector<Bytes> all;
  for (const model::Layout& base : bases()) {
    for (const model::Layout& target : targets) {
      model::Attachment attachment;
      if (all.size() % 2 == 0 && packed.ok()) attachment.side_files = {*packed};
      const Result<model::LayoutChange> change = model::compare_layouts(base, target, {1, 2});
      if (change.ok()) attachment.layout = *change;
      if (all.size() % 3 == 0) attachment.identities.emplace();
      all.push_back(model::serialise(attachment));
    }
  }
  return all;
}

const Registration registration({"attachment", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
