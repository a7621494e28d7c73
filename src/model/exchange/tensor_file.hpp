#pragma once
// A safetensors file in memory, as other programs exchange changes: plain, or wrapped in zstd.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/safetensors_header.hpp"

namespace sparcl::model {

struct TensorFile {
  std::string name;  // inside a folder; empty for a single file
  Schema schema;
  Metadata metadata;
  std::vector<std::vector<std::byte>> tensors;

  const std::string* find_metadata(std::string_view key) const;
};

// Hostile bytes: the header is checked as any checkpoint's; what zstd unwraps is limited (Corrupt)
// before memory is taken.
Result<TensorFile> parse_tensor_file(std::span<const std::byte> bytes);
// first: the file's first eight bytes. An error of parse_tensor_file(), before the rest is read.
Status check_begin_of_tensor_file(std::span<const std::byte> first, std::uint64_t file_bytes);
bool is_zstd(std::span<const std::byte> bytes);

// zstd_level 0: plain.
Result<std::vector<std::byte>> serialise(const TensorFile& file, int zstd_level);

}  // namespace sparcl::model
