#include "src/model/schema.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
constexpr std::uint64_t kSchemaSeed = 0x616d65686373;  // "schema": apart from other uses of the same hash

Status damaged(std::string_view what) { return Status(Code::kCorrupt, fmt::format("a serialised schema is damaged: {}", what)); }

Status read_tensor(ByteReader& reader, TensorSchema& tensor) {
  std::uint64_t length = 0;
  std::span<const std::byte> name;
  std::uint8_t type = 0;
  std::uint64_t rank = 0;
  if (!reader.read_varint(length) || !reader.read_bytes(length, name)) return damaged("a name ends early");
  tensor.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (!reader.read(type) || find_data_type(type) == nullptr) return damaged("a data type is missing or unknown");
  tensor.datatype = static_cast<DataType>(type);
  if (!reader.read_varint(rank) || rank > reader.remaining())
    return damaged("a shape ends early");  // a dimension takes a byte at least
  tensor.shape.resize(rank);
  for (std::uint64_t& dimension : tensor.shape) {
    if (!reader.read_varint(dimension)) return damaged("a shape ends early");
  }
  return {};
}

Status refuse_duplicates(const Schema& schema) {
  std::vector<std::string_view> names;
  names.reserve(schema.size());
  for (const TensorSchema& tensor : schema) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());  // not a hash table: hostile names could make one quadratic
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return Status(Code::kInvalidArgument, fmt::format("tensor {} is named twice: names must be unique", in_quotes(*twice)));
}

}  // namespace

Result<std::uint64_t> element_count(const TensorSchema& tensor) {
  // A zero anywhere makes the tensor empty, whatever the other dimensions are.
  if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return std::uint64_t{0};
  const std::uint64_t most = (kLimit - 1) / element_bytes(tensor.datatype);
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : tensor.shape) {
    if (dimension > most / count) {
      return Status(Code::kInvalidArgument,
                    fmt::format("tensor {}: the shape's product passes 2^63 bytes", in_quotes(tensor.name)));
    }
    count *= dimension;
  }
  return count;
}

std::vector<std::byte> serialise(const Schema& schema) {
  ByteWriter writer;
  writer.write_varint(schema.size());
  for (const TensorSchema& tensor : schema) {
    writer.write_varint(tensor.name.size());
    writer.write_bytes(std::as_bytes(std::span(tensor.name)));
    writer.write(static_cast<std::uint8_t>(tensor.datatype));
    writer.write_varint(tensor.shape.size());
    for (const std::uint64_t dimension : tensor.shape) writer.write_varint(dimension);
  }
  return writer.take();
}

Result<Schema> parse_schema(std::span<const std::byte> bytes) {
  constexpr std::size_t kLeastTensorBytes = 3;  // empty name, type, no dimension
  ByteReader reader(bytes);
  std::uint64_t count = 0;
  if (!reader.read_varint(count) || count > reader.remaining() / kLeastTensorBytes)
    return damaged("it names more tensors than it holds");
  Schema schema(count);
  for (TensorSchema& tensor : schema) SPARCL_RETURN_IF_ERROR(read_tensor(reader, tensor));
  if (reader.remaining() != 0) return damaged(fmt::format("{} bytes follow its end", reader.remaining()));
  if (const Status status = validate(schema); !status.ok()) return damaged(status.message());
  return schema;
}

Status check_tensor_name(std::string_view name) {
  if (name.empty()) return Status(Code::kInvalidArgument, "a tensor's name is empty: give each tensor a name");
  if (is_utf8(name)) return {};
  return Status(Code::kInvalidArgument, fmt::format("tensor {}: its name is not valid UTF-8", in_quotes(name)));
}

Status validate(const Schema& schema) {
  std::uint64_t total_bytes = 0;
  for (const TensorSchema& tensor : schema) {
    SPARCL_RETURN_IF_ERROR(check_tensor_name(tensor.name));
    const Result<std::uint64_t> count = element_count(tensor);
    if (!count.ok()) return count.status();
    total_bytes += *count * element_bytes(tensor.datatype);
    if (total_bytes >= kLimit) {
      return Status(Code::kInvalidArgument,
                    fmt::format("tensor {}: the tensors up to here pass 2^63 bytes", in_quotes(tensor.name)));
    }
  }
  return refuse_duplicates(schema);
}

std::vector<std::uint64_t> tensor_hashes(const Schema& schema) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(schema.size());
  for (const TensorSchema& tensor : schema) hashes.push_back(xxh3_64(serialise({tensor}), kSchemaSeed));
  return hashes;
}

Hash128 schema_hash(const Schema& schema) { return xxh3_128(serialise(schema), kSchemaSeed); }

}  // namespace sparcl::model
