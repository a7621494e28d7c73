#pragma once
// Writes states as safetensors files, completely or not at all.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"
#include "src/model/file_watch.hpp"
#include "src/model/schema.hpp"
#include "src/model/side_file.hpp"

namespace sparcl::model {

// Tensors that come into memory while they are written, in the order of their bytes.
class TensorFeed {
 public:
  virtual ~TensorFeed() = default;
  // The tensor's bytes below `end` are needed.
  virtual Status need(std::size_t tensor, std::uint64_t end) = 0;
  // They, and the tensors before, are written.
  virtual void release(std::size_t tensor, std::uint64_t end) = 0;
  // Before anything gets its name; an error ends the call.
  virtual Status finish() = 0;
};

// Writes `layout` with the bytes of its tensors (in the order of layout_schema()) to `path`: a
// file, or a folder if the layout is one. `path` appears or is replaced when everything is on the
// disk. After an error (it names the path and the bytes) `path` is unchanged, or the error says
// that it is replaced but may not survive a crash (make_name_last). An existing folder keeps its
// other files. It is refused if it has shards that neither `layout` nor `replaced` names.
// side_files are written into a folder beside the shards. Files of the existing folder whose names
// are in `dropped` are not kept. feed: makes the tensors; nullptr: they are in memory.
Status write_checkpoint(const std::string& path, const Layout& layout,
                        std::span<const std::byte* const> tensors, const Layout* replaced = nullptr,
                        std::span<const SideFile> side_files = {}, const FileWatch& watch = {},
                        std::span<const std::string> dropped = {}, TensorFeed* feed = nullptr);

// Writes one file with a header in the format's usual compact style.
Status write_safetensors(const std::string& path, const Schema& schema,
                         std::span<const std::byte* const> tensors, const Metadata& metadata = {});

}  // namespace sparcl::model
