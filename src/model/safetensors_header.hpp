#pragma once
// The JSON header of a safetensors file. A file has its header's length (8 bytes, little endian),
// the header, and the tensors' bytes without a gap.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/schema.hpp"

namespace sparcl::model {

constexpr std::size_t kHeaderLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes =
    100'000'000;  // the limit of the format's reference implementation

// "__metadata__": pairs of strings, in the file's order.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// The value of the first pair with this key; nullptr if there is none.
const std::string* find_metadata(const Metadata& metadata, std::string_view key);

struct Header {
  Schema tensors;  // in the order of their bytes, which may differ from the order in the JSON text
  std::vector<std::uint64_t> offsets;  // of each tensor's first byte, from the end of the header
  std::uint64_t data_bytes = 0;        // of all tensors
  Metadata metadata;
};

// Checks untrusted JSON. It must be well-formed UTF-8 without duplicate keys and have only the
// format's fields. Each tensor's bytes must match its shape, and the tensors must lie side by side
// without overlap or gap. Refusals name the tensor and the error (Corrupt; Unsupported for a data
// type).
Result<Header> parse_header(std::string_view json);

// The header of tensors laid out in schema order, in the reference implementation's compact style,
// padded by spaces to 8 bytes. The schema must be valid (model::validate) and metadata UTF-8.
std::string render_header(const Schema& schema, const Metadata& metadata);

}  // namespace sparcl::model
