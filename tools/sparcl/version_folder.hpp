#pragma once
// Folders of trainers that hold one version each, and the numbers in the names of versions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sparcl::tool {

struct VersionFolder {
  std::string marker;   // the file that its writer writes last
  std::string content;  // the folder to read: itself, or a folder in it
  bool is_change;       // it holds a change of the version before it
};

// Nothing: the folder is no version, or its marker is not there yet. Markers: STABLE (step_N),
// READY (checkpoint-N of GRAIL), manifest.json (delta-N of SkyRL), DONE (weight_vN of slime's first
// layout), trainer_state.json (checkpoint-N of a Trainer). Else the index, or a model.safetensors
// with a config.json.
std::optional<VersionFolder> find_version_folder(const std::string& path);

// The marker that a folder without it waits for, although it has a whole model's files by their
// names; "": there is none. No file is read.
std::string_view awaited_marker(const std::string& path);

// The name of a version in the layouts hf-*, and the version of a folder that has exactly such a
// name.
std::string weight_folder_name(std::uint64_t version);
std::optional<std::uint64_t> weight_folder_version(std::string_view name);

// The last number in the last part of the path: 12 for "a3/step_000012.safetensors".
std::optional<std::uint64_t> number_in_name(const std::string& path);

// Orders names as their bytes, but numbers in them by their values.
struct NumberOrder {
  bool operator()(const std::string& a, const std::string& b) const;
};

}  // namespace sparcl::tool
