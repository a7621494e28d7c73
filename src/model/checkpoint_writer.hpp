#pragma once
// Writes states as safetensors files: whole or not at all.

#include <cstddef>
#include <span>
#include <string>

#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"
#include "src/model/file_watch.hpp"
#include "src/model/schema.hpp"
#include "src/model/side_file.hpp"

namespace sparcl::model {

// Writes `layout` with the bytes of its tensors (in the order of layout_schema()) to `path`: a
// file, or a folder where the layout is one. It appears, or replaces what is there, when all of it
// is on the disk; an error (it names the path and the bytes) leaves `path` as it was, or says that
// it is replaced and might not last (make_name_last). An existing folder keeps its other files; it
// is refused if it holds shards that neither `layout` nor `replaced` names. side_files are written
// into a folder beside the shards.
Status write_checkpoint(const std::string& path, const Layout& layout,
                        std::span<const std::byte* const> tensors, const Layout* replaced = nullptr,
                        std::span<const SideFile> side_files = {}, const FileWatch& watch = {});

// One file with a header in the format's usual compact style.
Status write_safetensors(const std::string& path, const Schema& schema,
                         std::span<const std::byte* const> tensors, const Metadata& metadata = {});

}  // namespace sparcl::model
