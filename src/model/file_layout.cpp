#include "src/model/file_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "src/model/shard_index.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

Status check_name(const std::string& name, std::string_view suffix) {
  SPARCL_RETURN_IF_ERROR(check_file_name(name));
  return name.ends_with(suffix)
             ? Status()
             : corrupt(fmt::format("{} does not end in {}", in_quotes(name), suffix));
}

Status check_names(const Layout& layout) {
  if (!layout.is_folder) {
    const bool plain = layout.files.size() == 1 && layout.index_name.empty();
    return plain ? Status() : corrupt("a single file has neither shards nor an index");
  }
  for (std::size_t i = 0; i < layout.files.size(); ++i) {
    SPARCL_RETURN_IF_ERROR(check_shard_name(layout.files[i].name));
    if (i > 0 && layout.files[i].name <= layout.files[i - 1].name)
      return corrupt("the shards are not in the order of their names");
  }
  if (layout.files.empty()) return corrupt("a folder without a shard");
  return layout.index_name.empty() ? Status() : check_name(layout.index_name, kIndexSuffix);
}

}  // namespace

Result<Schema> layout_schema(const Layout& layout) {
  SPARCL_RETURN_IF_ERROR(check_names(layout));
  Schema schema;
  std::vector<std::size_t> file_of;
  for (std::size_t i = 0; i < layout.files.size(); ++i) {
    const FileLayout& file = layout.files[i];
    const std::string where = layout.is_folder ? file.name + ": " : "";
    if (file.header.size() > kMaxHeaderBytes)
      return corrupt(fmt::format("{}a header of more than {} bytes", where, kMaxHeaderBytes));
    Result<Header> header = parse_header(file.header);
    if (!header.ok()) return header.status().with_prefix(where);
    file_of.insert(file_of.end(), header->tensors.size(), i);
    std::move(header->tensors.begin(), header->tensors.end(), std::back_inserter(schema));
  }
  if (const Status status = validate(schema); !status.ok()) return corrupt(status.message());
  SPARCL_RETURN_IF_ERROR(check_index(layout, schema, file_of));
  return schema;
}

Status check_file_name(const std::string& name) {
  const bool has_control = std::any_of(
      name.begin(), name.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
  if (name.empty() || name == "." || name == ".." || has_control ||
      name.find_first_of("/\\") != name.npos || !is_utf8(name)) {
    return corrupt(fmt::format("{} is no plain file name: files outside of the folder are refused",
                               in_quotes(name)));
  }
  return {};
}

Status check_shard_name(const std::string& name) { return check_name(name, kShardSuffix); }

Status check_index(const Layout& layout, const Schema& schema,
                   std::span<const std::size_t> file_of) {
  if (layout.index_name.empty()) return {};
  const Result<ShardIndex> index = parse_shard_index(layout.index);
  if (!index.ok()) return index.status().with_prefix(layout.index_name + ": ");
  std::vector<std::pair<std::string, std::string>> held;
  held.reserve(schema.size());
  for (std::size_t i = 0; i < schema.size(); ++i)
    held.emplace_back(schema[i].name, layout.files[file_of[i]].name);
  std::sort(held.begin(), held.end());

  const auto [listed, found] =
      std::mismatch(index->weight_map.begin(), index->weight_map.end(), held.begin(), held.end());
  if (listed == index->weight_map.end() && found == held.end()) return {};
  if (found == held.end() || (listed != index->weight_map.end() && *listed < *found)) {
    return corrupt(fmt::format("{}: tensor {} is missing in shard {}", layout.index_name,
                               in_quotes(listed->first), in_quotes(listed->second)));
  }
  return corrupt(fmt::format("{}: shard {} holds tensor {}, which the index does not list there",
                             layout.index_name, in_quotes(found->second), in_quotes(found->first)));
}

Layout single_file_layout(const Schema& schema, const Metadata& metadata) {
  Layout layout;
  layout.files.push_back({"", render_header(schema, metadata)});
  return layout;
}

}  // namespace sparcl::model
