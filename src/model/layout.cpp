#include "src/model/layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "src/model/text.hpp"

namespace sparcl::model {

Result<Schema> layout_schema(const Layout& layout) {
  Schema schema;
  for (const FileLayout& file : layout.files) {
    Result<Header> header = parse_header(file.header);
    if (!header.ok()) return header.status().with_prefix(file.name.empty() ? "" : file.name + ": ");
    std::move(header->tensors.begin(), header->tensors.end(), std::back_inserter(schema));
  }
  if (const Status status = validate(schema); !status.ok()) return Status(Code::kCorrupt, status.message());
  return schema;
}

Status check_file_name(const std::string& name) {
  const bool has_control = std::any_of(name.begin(), name.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
  if (name.empty() || name == "." || name == ".." || has_control || name.find_first_of("/\\") != name.npos || !is_utf8(name)) {
    return Status(Code::kCorrupt, fmt::format("{} is no plain file name: files outside of the folder are refused", in_quotes(name)));
  }
  return {};
}

Layout single_file_layout(const Schema& schema, const Metadata& metadata) {
  Layout layout;
  layout.files.push_back({"", render_header(schema, metadata)});
  return layout;
}

}  // namespace sparcl::model
