#pragma once
// A small writer of safetensors files: a little-endian length, a JSON header padded to 8 bytes,
// then the tensors' bytes.

#include <filesystem>
#include <language_model/parameter_layout.hpp>
#include <map>
#include <span>
#include <string>

#include "sparcl/sparcl.hpp"

namespace training {

using Metadata = std::map<std::string, std::string>;

// flat: the tensors of `layout`, in its order. The file appears whole or not at all. Throws
// std::runtime_error.
void write_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                      std::span<const sparcl::bfloat16> flat, const Metadata& metadata);
void write_checkpoint(const std::filesystem::path& path, const ParameterLayout& layout,
                      std::span<const float> flat, const Metadata& metadata);

}  // namespace training
