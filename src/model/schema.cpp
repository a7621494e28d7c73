#include "src/model/schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "src/base/bytes.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kLimit = std::uint64_t{1} << 63;
constexpr std::uint8_t kSliceFlag = 0x80;  // beside the data type
constexpr std::uint8_t kOpaque = 0x7e;     // in place of the data type: a name and the bytes follow
constexpr std::uint64_t kSchemaSeed =
    0x616d65686373;  // "schema": apart from other uses of the same hash

Status damaged(std::string_view what) {
  return Status(Code::kCorrupt, fmt::format("a serialised schema is damaged: {}", what));
}

// left: dimensions that may come.
Status read_dimensions(ByteReader& reader, std::uint64_t rank, std::uint64_t& left,
                       std::vector<std::uint64_t>& dimensions) {
  if (rank > reader.remaining())
    return damaged("a shape or a slice ends early");  // a dimension takes a byte at least
  if (rank > left)
    return Status(Code::kUnsupported, "the tensors have more dimensions than are taken here");
  left -= rank;
  dimensions.resize(rank);
  for (std::uint64_t& dimension : dimensions) {
    if (!reader.read_varint(dimension)) return damaged("a shape or a slice ends early");
  }
  return {};
}

Status read_opaque(ByteReader& reader, std::uint64_t& left, TensorSchema& tensor) {
  OpaqueType& opaque = tensor.opaque.emplace();
  std::uint64_t length = 0, rank = 0;
  std::span<const std::byte> name;
  if (!reader.read_varint(length) || !reader.read_bytes(length, name))
    return damaged("the name of a data type ends early");
  opaque.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (!reader.read_varint(opaque.bytes) || !reader.read_varint(rank))
    return damaged("a shape ends early");
  return read_dimensions(reader, rank, left, tensor.shape);
}

Status read_tensor(ByteReader& reader, std::uint64_t& left, TensorSchema& tensor) {
  std::uint64_t length = 0;
  std::span<const std::byte> name;
  std::uint8_t type = 0;
  std::uint64_t rank = 0;
  if (!reader.read_varint(length) || !reader.read_bytes(length, name))
    return damaged("a name ends early");
  tensor.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  if (!reader.read(type)) return damaged("a data type is missing or unknown");
  if (type == kOpaque) return read_opaque(reader, left, tensor);
  const bool is_slice = (type & kSliceFlag) != 0;
  type &= static_cast<std::uint8_t>(~kSliceFlag);
  if (find_data_type(type) == nullptr) return damaged("a data type is missing or unknown");
  tensor.datatype = static_cast<DataType>(type);
  if (!reader.read_varint(rank)) return damaged("a shape ends early");
  SPARCL_RETURN_IF_ERROR(read_dimensions(reader, rank, left, tensor.shape));
  if (!is_slice) return {};
  TensorSlice& slice = tensor.slice.emplace();
  SPARCL_RETURN_IF_ERROR(read_dimensions(reader, rank, left, slice.begin));
  return read_dimensions(reader, rank, left, slice.extent);
}

Status refuse_duplicates(const Schema& schema) {
  std::vector<const TensorSchema*> sorted;
  sorted.reserve(schema.size());
  for (const TensorSchema& tensor : schema) sorted.push_back(&tensor);
  // Not a hash table: hostile names could make one quadratic.
  std::sort(sorted.begin(), sorted.end(), [](const TensorSchema* a, const TensorSchema* b) {
    if (a->name != b->name) return a->name < b->name;
    if (!a->slice || !b->slice) return !a->slice && b->slice.has_value();
    return std::tie(a->slice->begin, a->slice->extent) <
           std::tie(b->slice->begin, b->slice->extent);
  });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    SPARCL_RETURN_IF_ERROR(check_beside(*sorted[i], *sorted[i - 1]));
  return {};
}

Result<std::uint64_t> product(const TensorSchema& tensor, const std::vector<std::uint64_t>& shape) {
  // A zero makes the tensor empty, for any other dimensions.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return std::uint64_t{0};
  const std::uint64_t most = (kLimit - 1) / element_bytes(tensor.datatype);
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : shape) {
    if (dimension > most / count) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("tensor {}: the shape's product passes 2^63 bytes", in_quotes(tensor.name)));
    }
    count *= dimension;
  }
  return count;
}

}  // namespace

Result<std::uint64_t> element_count(const TensorSchema& tensor) {
  if (!tensor.opaque) return product(tensor, tensor.held_shape());
  if (tensor.opaque->bytes < kLimit) return tensor.opaque->bytes;
  return Status(Code::kInvalidArgument,
                fmt::format("tensor {}: it has 2^63 bytes or more", in_quotes(tensor.name)));
}

std::string_view file_type(const TensorSchema& tensor) {
  return tensor.opaque ? std::string_view(tensor.opaque->name) : info(tensor.datatype).safetensors;
}

namespace {

// The type is named as a file may name it, and has the bytes that its shape needs if both are
// known.
Status check_opaque(const TensorSchema& tensor) {
  if (!tensor.opaque) return {};
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kInvalidArgument,
                  fmt::format("tensor {}: {}", in_quotes(tensor.name), why));
  };
  const OpaqueType& type = *tensor.opaque;
  if (!may_be_opaque_type(type.name))
    return refuse(fmt::format("{} is no name of an opaque data type", in_quotes(type.name)));
  if (tensor.datatype != DataType::kUint8 || tensor.slice)
    return refuse("an opaque data type is held whole, as bytes");
  const OpaqueTypeInfo* known = find_opaque_type(type.name);
  if (known == nullptr) return {};
  const Result<std::uint64_t> elements = product(tensor, tensor.shape);
  if (!elements.ok()) return elements.status();
  const std::uint64_t bits = *elements <= kLimit / known->bits ? *elements * known->bits : kLimit;
  if (bits == kLimit || bits % 8 != 0 || bits / 8 != type.bytes)
    return refuse(fmt::format("{} bytes are not what {} elements of {} bits take", type.bytes,
                              *elements, known->bits));
  return {};
}

}  // namespace

Status check_slice(const TensorSchema& tensor) {
  if (!tensor.slice) return {};
  const TensorSlice& slice = *tensor.slice;
  SPARCL_RETURN_IF_ERROR(product(tensor, tensor.shape).status());
  bool is_inside =
      slice.begin.size() == tensor.shape.size() && slice.extent.size() == tensor.shape.size();
  for (std::size_t i = 0; is_inside && i < tensor.shape.size(); ++i) {
    is_inside =
        slice.begin[i] <= tensor.shape[i] && slice.extent[i] <= tensor.shape[i] - slice.begin[i];
  }
  if (is_inside) return {};
  return Status(
      Code::kInvalidArgument,
      fmt::format("tensor {}: the slice of [{}] elements at [{}] does not lie inside [{}]",
                  in_quotes(tensor.name), fmt::join(slice.extent, ", "),
                  fmt::join(slice.begin, ", "), fmt::join(tensor.shape, ", ")));
}

Status check_beside(const TensorSchema& tensor, const TensorSchema& other) {
  if (tensor.name != other.name) return {};
  const std::string name = in_quotes(tensor.name);
  if (!tensor.slice && !other.slice) {
    return Status(Code::kInvalidArgument,
                  fmt::format("tensor {} is named twice: names must be unique", name));
  }
  if (!tensor.slice || !other.slice) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("tensor {} is there whole and as a slice: one of the two is enough", name));
  }
  if (tensor.datatype != other.datatype || tensor.shape != other.shape) {
    return Status(Code::kInvalidArgument,
                  fmt::format("two slices of tensor {} are of different tensors: {} and {}", name,
                              describe_kind(tensor), describe_kind(other)));
  }
  if (*tensor.slice != *other.slice) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("tensor {}: the slice {} is named twice", name, describe_kind(tensor)));
}

std::string describe_kind(const TensorSchema& tensor) {
  const std::string held =
      fmt::format("{} [{}]", tensor.opaque ? file_type(tensor) : info(tensor.datatype).name,
                  fmt::join(tensor.held_shape(), ", "));
  if (!tensor.slice) return held;
  return fmt::format("{} at [{}] of [{}]", held, fmt::join(tensor.slice->begin, ", "),
                     fmt::join(tensor.shape, ", "));
}

std::vector<std::byte> serialise(const Schema& schema) {
  ByteWriter writer;
  writer.write_varint(schema.size());
  for (const TensorSchema& tensor : schema) {
    writer.write_varint(tensor.name.size());
    writer.write_bytes(std::as_bytes(std::span(tensor.name)));
    const auto type = tensor.opaque ? kOpaque : static_cast<std::uint8_t>(tensor.datatype);
    writer.write(tensor.slice ? static_cast<std::uint8_t>(type | kSliceFlag) : type);
    if (tensor.opaque) {
      writer.write_varint(tensor.opaque->name.size());
      writer.write_bytes(std::as_bytes(std::span(tensor.opaque->name)));
      writer.write_varint(tensor.opaque->bytes);
    }
    writer.write_varint(tensor.shape.size());
    for (const std::uint64_t dimension : tensor.shape) writer.write_varint(dimension);
    if (!tensor.slice) continue;
    for (const std::uint64_t dimension : tensor.slice->begin) writer.write_varint(dimension);
    for (const std::uint64_t dimension : tensor.slice->extent) writer.write_varint(dimension);
  }
  return writer.take();
}

Result<Schema> parse_schema(std::span<const std::byte> bytes, const SchemaLimits& limits) {
  constexpr std::size_t kMinTensorBytes = 3;  // empty name, type, no dimension
  ByteReader reader(bytes);
  std::uint64_t count = 0;
  if (!reader.read_varint(count) || count > reader.remaining() / kMinTensorBytes)
    return damaged("it names more tensors than it holds");
  if (count > limits.tensors)
    return Status(Code::kUnsupported, fmt::format("it names {} tensors; at most {} are taken here",
                                                  count, limits.tensors));
  Schema schema(count);
  std::uint64_t left = limits.dimensions;
  for (TensorSchema& tensor : schema) SPARCL_RETURN_IF_ERROR(read_tensor(reader, left, tensor));
  if (reader.remaining() != 0)
    return damaged(fmt::format("{} bytes follow its end", reader.remaining()));
  if (const Status status = validate(schema); !status.ok()) return damaged(status.message());
  return schema;
}

Status check_tensor_name(std::string_view name) {
  if (name.empty())
    return Status(Code::kInvalidArgument, "a tensor's name is empty: give each tensor a name");
  if (is_utf8(name)) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("tensor {}: its name is not valid UTF-8", in_quotes(name)));
}

Status validate(const Schema& schema) {
  std::uint64_t total_bytes = 0;
  for (const TensorSchema& tensor : schema) {
    SPARCL_RETURN_IF_ERROR(check_tensor_name(tensor.name));
    SPARCL_RETURN_IF_ERROR(check_slice(tensor));
    SPARCL_RETURN_IF_ERROR(check_opaque(tensor));
    SPARCL_ASSIGN_OR_RETURN(const std::uint64_t count, element_count(tensor));
    total_bytes += count * element_bytes(tensor.datatype);
    if (total_bytes >= kLimit) {
      return Status(
          Code::kInvalidArgument,
          fmt::format("tensor {}: the tensors up to here pass 2^63 bytes", in_quotes(tensor.name)));
    }
  }
  return refuse_duplicates(schema);
}

std::vector<std::uint64_t> tensor_hashes(const Schema& schema) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(schema.size());
  for (const TensorSchema& tensor : schema)
    hashes.push_back(xxh3_64(serialise({tensor}), kSchemaSeed));
  return hashes;
}

Hash128 schema_hash(std::span<const std::byte> serialised) {
  return xxh3_128(serialised, kSchemaSeed);
}

Hash128 schema_hash(const Schema& schema) { return schema_hash(serialise(schema)); }

}  // namespace sparcl::model
