#include "src/model/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "src/model/header_handler.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

Status refuse_duplicate_names(const std::vector<RawTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const RawTensor& tensor : tensors) names.push_back(tensor.schema.name);
  std::sort(names.begin(),
            names.end());  // not a hash table: hostile names could make one quadratic
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return {};
  return corrupt(fmt::format("header: tensor {} is listed twice", in_quotes(*twice)));
}

Status refuse_duplicate_metadata(const Metadata& metadata) {
  std::vector<std::string_view> keys;
  keys.reserve(metadata.size());
  for (const auto& [key, value] : metadata) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice == keys.end()) return {};
  return corrupt(fmt::format("header: __metadata__ has the key {} twice", in_quotes(*twice)));
}

// The bytes that the shape needs; for an unknown type, the bytes that are there.
Result<std::uint64_t> bytes_of(const TensorSchema& tensor) {
  const OpaqueTypeInfo* known = tensor.opaque ? find_opaque_type(tensor.opaque->name) : nullptr;
  SPARCL_ASSIGN_OR_RETURN(const std::uint64_t count,
                          known == nullptr
                              ? element_count(tensor)
                              : element_count({tensor.name, DataType::kUint64, tensor.shape}));
  if (known == nullptr) return count * element_bytes(tensor.datatype);
  // Fewer than 2^60 elements: eight bytes each are less than 2^63.
  const std::uint64_t bits = count % 8 * known->bits;
  if (bits % 8 == 0) return count / 8 * known->bits + bits / 8;
  return corrupt(fmt::format(
      "tensor {}: {} elements of {} have {} bits each and fill no whole number of bytes",
      in_quotes(tensor.name), count, known->name, known->bits));
}

// `end`: the end of the tensor before.
Status check_place(RawTensor& tensor, std::uint64_t end) {
  const auto refuse = [&](const std::string& what) {
    return corrupt(fmt::format("tensor {}: data_offsets [{}, {}] {}", in_quotes(tensor.schema.name),
                               tensor.begin, tensor.end, what));
  };
  if (tensor.end < tensor.begin) return refuse("end before they begin");
  if (tensor.schema.opaque) tensor.schema.opaque->bytes = tensor.end - tensor.begin;
  const Result<std::uint64_t> bytes = bytes_of(tensor.schema);
  if (!bytes.ok()) return corrupt(bytes.status().message());
  if (tensor.end - tensor.begin != *bytes) {
    return refuse(fmt::format("hold {} bytes, but the shape and {} need {}",
                              tensor.end - tensor.begin, file_type(tensor.schema), *bytes));
  }
  if (tensor.begin < end)
    return refuse(fmt::format("overlap the tensor before, which ends at {}", end));
  if (tensor.begin > end)
    return refuse(fmt::format("leave a gap: the tensor before ends at {}", end));
  return {};
}

// Names the header's fault as the JSON parser and the handler know it.
Result<HeaderHandler> read_json(std::string_view json) {
  // The parser would take a NUL for the end, and skip a byte order mark.
  if (const std::size_t at = json.find('\0'); at != json.npos)
    return corrupt(fmt::format("header: byte {} is NUL", at));
  if (json.empty() || json.front() != '{') return corrupt("header: it must begin with '{'");
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) return handler.error();
  return handler;
}

}  // namespace

Result<Header> parse_header(std::string_view json) {
  SPARCL_ASSIGN_OR_RETURN(HeaderHandler parsed, read_json(json));
  std::vector<RawTensor> tensors = parsed.take_tensors();
  Header header;
  header.metadata = parsed.take_metadata();
  SPARCL_RETURN_IF_ERROR(refuse_duplicate_names(tensors));
  SPARCL_RETURN_IF_ERROR(refuse_duplicate_metadata(header.metadata));

  std::stable_sort(tensors.begin(), tensors.end(), [](const RawTensor& a, const RawTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  header.tensors.reserve(tensors.size());
  header.offsets.reserve(tensors.size());
  for (RawTensor& tensor : tensors) {
    SPARCL_RETURN_IF_ERROR(check_place(tensor, header.data_bytes));
    header.data_bytes = tensor.end;
    header.offsets.push_back(tensor.begin);
    header.tensors.push_back(std::move(tensor.schema));
  }
  return header;
}

std::string render_header(const Schema& schema, const Metadata& metadata) {
  const auto json_string = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string out = "{";
  const auto separate = [&] {
    if (out.size() > 1) out += ',';
  };
  if (!metadata.empty()) {
    out += "\"__metadata__\":{";
    for (std::size_t i = 0; i < metadata.size(); ++i) {
      out += fmt::format("{}{}:{}", i == 0 ? "" : ",", json_string(metadata[i].first),
                         json_string(metadata[i].second));
    }
    out += '}';
  }
  std::uint64_t at = 0;
  for (const TensorSchema& tensor : schema) {
    const std::uint64_t end = at + *element_count(tensor) * element_bytes(tensor.datatype);
    separate();
    out += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                       json_string(tensor.name), file_type(tensor), fmt::join(tensor.shape, ","),
                       at, end);
    at = end;
  }
  out += '}';
  out.append((8 - out.size() % 8) % 8, ' ');
  return out;
}

const std::string* find_metadata(const Metadata& metadata, std::string_view key) {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace sparcl::model
