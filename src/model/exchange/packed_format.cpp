// Two tensors for all changes: __positions__ (bytes) and __values__ (new values of one type). A
// list of parameters in the metadata assigns parts of both to tensors. slime and vime write this
// format. Positions are int32 (encoding "indices"), or gaps between them, uint16 or uint32 for each
// parameter ("deltas"; "deltas_zstd" is the same file wrapped in zstd).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/model/exchange/exchange_format.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPositions = "__positions__";
constexpr std::string_view kValues = "__values__";
constexpr int kZstdLevel = 1;
constexpr std::size_t kMaxParamsBytes =
    std::size_t{16} << 20;  // of JSON, whose tree takes much more: 100,000 parameters

bool is_packed(const TensorFile& file) {
  return file.schema.size() == 2 &&
         std::ranges::count(file.schema, kPositions, &TensorSchema::name) == 1 &&
         std::ranges::count(file.schema, kValues, &TensorSchema::name) == 1;
}

template <bool kGaps>
bool is_it(const TensorFile& file) {
  const std::string* encoding = file.find_metadata("encoding");
  return is_packed(file) && encoding != nullptr && (*encoding != "indices") == kGaps;
}

// One parameter of the list.
struct Param {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint64_t pos_start = 0;
  std::uint64_t pos_end = 0;
  std::uint64_t pos_width = 0;
  std::uint64_t val_start = 0;
  std::uint64_t val_end = 0;
};

bool get(const Json& json, const char* key, std::uint64_t& value) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) return false;
  value = found->get<std::uint64_t>();
  return true;
}

bool get_shape(const Json& json, std::vector<std::uint64_t>& shape) {
  const auto found = json.find("shape");
  if (found == json.end() || !found->is_array()) return false;
  for (const Json& dimension : *found) {
    if (!dimension.is_number_unsigned()) return false;
    shape.push_back(dimension.get<std::uint64_t>());
  }
  return true;
}

Result<Param> parse_param(const Json& json, std::size_t place, DataType values) {
  const Status damaged = corrupt(fmt::format("parameter {} of the list is incomplete", place));
  Param param;
  if (!json.is_object()) return damaged;
  const auto name = json.find("name");
  const auto type = json.find("dtype");
  if (name == json.end() || !name->is_string() || type == json.end() || !type->is_string())
    return damaged;
  param.name = name->get<std::string>();
  if (!get_shape(json, param.shape) || !get(json, "pos_start", param.pos_start) ||
      !get(json, "pos_end", param.pos_end) || !get(json, "pos_width", param.pos_width) ||
      !get(json, "val_start", param.val_start) || !get(json, "val_end", param.val_end)) {
    return damaged;
  }
  if (type->get<std::string>() == torch_name(values)) return param;
  return corrupt(fmt::format("parameter {} is {}, but the values are {}", in_quotes(param.name),
                             in_quotes(type->get<std::string>()), torch_name(values)));
}

Status check_place(const Param& param, std::uint64_t pos_at, std::uint64_t val_at,
                   std::uint64_t pos_size, std::uint64_t val_size, bool is_gaps) {
  // Parts must be side by side: with overlapping parts a small file could ask for much memory.
  if (param.pos_start != pos_at || param.val_start != val_at || param.pos_end < param.pos_start ||
      param.val_end < param.val_start || param.pos_end > pos_size || param.val_end > val_size) {
    return corrupt(
        fmt::format("parameter {} does not lie behind the one before it, or passes the end",
                    in_quotes(param.name)));
  }
  const bool width_is_right = param.pos_width == 4 || (is_gaps && param.pos_width == 2);
  const std::uint64_t bytes = param.pos_end - param.pos_start;
  if (!width_is_right || bytes % param.pos_width != 0 ||
      bytes / param.pos_width != param.val_end - param.val_start) {
    return corrupt(fmt::format("parameter {} has {} values and {} bytes of positions, {} each",
                               in_quotes(param.name), param.val_end - param.val_start, bytes,
                               param.pos_width));
  }
  return {};
}

std::uint64_t load_number(const std::byte* at, std::uint64_t width) {
  return width == 2 ? load_le<std::uint16_t>(at) : load_le<std::uint32_t>(at);
}

Status read_positions(const Param& param, std::span<const std::byte> bytes, bool is_gaps,
                      TensorChange& tensor) {
  std::uint64_t next = 0;  // the smallest position that can come
  tensor.indices.reserve(bytes.size() / param.pos_width);
  for (std::size_t at = 0; at < bytes.size(); at += param.pos_width) {
    const std::uint64_t number = load_number(bytes.data() + at, param.pos_width);
    if (!is_gaps && number > 0x7fffffff)
      return corrupt(fmt::format("parameter {} has a negative position", in_quotes(param.name)));
    tensor.indices.push_back(is_gaps ? next + number : number);
    next = tensor.indices.back() + 1;
  }
  return is_gaps ? Status() : check_ascending(tensor);
}

Status check_end(const TensorChange& tensor) {
  const Result<std::uint64_t> elements =
      element_count({tensor.name, tensor.datatype, *tensor.shape});
  if (!elements.ok()) return elements.status();
  if (tensor.indices.empty() || tensor.indices.back() < *elements) return {};
  return corrupt(fmt::format("parameter {} has a position {} past its {} elements",
                             in_quotes(tensor.name), tensor.indices.back(), *elements));
}

// The versions of other programs are any text ("default"). They are used if they are numbers, and
// ours if the file has them.
void read_versions(const TensorFile& file, SparseChange& change) {
  const auto number = [&](std::string_view key, std::uint64_t& value) {
    const std::string* text = file.find_metadata(key);
    std::uint64_t parsed = 0;
    if (text == nullptr) return;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), parsed);
    if (error == std::errc() && end == text->data() + text->size()) value = parsed;
  };
  number("prev_version", change.base_version);
  number("current_version", change.target_version);
}

Result<Json> parse_params(const TensorFile& file) {
  const std::string* text = file.find_metadata("params");
  if (text == nullptr) return corrupt("the metadata has no list of parameters (params)");
  if (text->size() > kMaxParamsBytes)
    return corrupt(fmt::format("a list of parameters of {} bytes", text->size()));
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_discarded() || !json.is_array())
    return corrupt("the list of parameters (params) is no JSON array");
  return json;
}

Status read_values(const TensorFile& file, const Json& params, bool is_gaps, SparseChange& change) {
  const std::size_t pos = file.schema[0].name == kPositions ? 0 : 1;
  const TensorSchema& value_schema = file.schema[1 - pos];
  if (file.schema[pos].datatype != DataType::kUint8 || file.schema[pos].shape.size() != 1 ||
      value_schema.shape.size() != 1) {
    return corrupt("positions must be a list of bytes (U8), and values a list");
  }
  const std::vector<std::byte>& positions = file.tensors[pos];
  const std::size_t width = element_bytes(value_schema.datatype);
  std::uint64_t pos_at = 0;
  std::uint64_t val_at = 0;
  std::set<std::string> names;
  for (const TensorChange& tensor : change.tensors)
    names.insert(tensor.name);  // of the earlier files
  for (std::size_t i = 0; i < params.size(); ++i) {
    SPARCL_ASSIGN_OR_RETURN(const Param param, parse_param(params[i], i, value_schema.datatype));
    SPARCL_RETURN_IF_ERROR(
        check_place(param, pos_at, val_at, positions.size(), value_schema.shape[0], is_gaps));
    if (!names.insert(param.name).second)
      return corrupt(fmt::format("parameter {} comes twice", in_quotes(param.name)));
    TensorChange tensor{param.name, value_schema.datatype, param.shape, {}, {}};
    SPARCL_RETURN_IF_ERROR(read_positions(
        param, std::span(positions).subspan(pos_at, param.pos_end - pos_at), is_gaps, tensor));
    SPARCL_RETURN_IF_ERROR(check_end(tensor));
    const auto first = file.tensors[1 - pos].begin();
    tensor.values.assign(first + static_cast<std::ptrdiff_t>(val_at * width),
                         first + static_cast<std::ptrdiff_t>(param.val_end * width));
    pos_at = param.pos_end;
    val_at = param.val_end;
    if (!tensor.indices.empty()) change.tensors.push_back(std::move(tensor));
  }
  if (pos_at == positions.size() && val_at == value_schema.shape[0]) return {};
  return corrupt("there are positions or values behind those of the last parameter");
}

Status read(const TensorFile& file, SparseChange& change) {
  const std::string& encoding = *file.find_metadata("encoding");
  if (encoding != "indices" && encoding != "deltas" && encoding != "deltas_zstd") {
    return Status(
        Code::kUnsupported,
        fmt::format("positions in encoding {}: indices, deltas and deltas_zstd can be read",
                    in_quotes(encoding)));
  }
  SPARCL_ASSIGN_OR_RETURN(const Json params, parse_params(file));
  read_versions(file, change);
  SPARCL_RETURN_IF_ERROR(read_own_metadata(file, change));
  return read_values(file, params, encoding != "indices", change);
}

// Appends the positions of one tensor to `positions`; returns the width.
std::uint64_t write_positions(const TensorChange& tensor, bool is_gaps, ByteWriter& positions) {
  std::vector<std::uint64_t> numbers = tensor.indices;
  if (is_gaps) {
    for (std::size_t i = numbers.size() - 1; i > 0; --i) numbers[i] -= numbers[i - 1] + 1;
  }
  const bool is_narrow = is_gaps && *std::ranges::max_element(numbers) <= 0xffff;
  for (const std::uint64_t number : numbers) {
    if (is_narrow) {
      positions.write(static_cast<std::uint16_t>(number));
    } else {
      positions.write(static_cast<std::uint32_t>(number));
    }
  }
  return is_narrow ? 2 : 4;
}

Status check_range(const TensorChange& tensor, bool is_gaps) {
  const std::uint64_t most = is_gaps ? 0xffffffff : 0x7fffffff;
  if (tensor.indices.back() <= most) return {};
  return Status(Code::kUnsupported,
                fmt::format("tensor {} changes at {}: this layout ends at {}",
                            in_quotes(tensor.name), tensor.indices.back(), most));
}

Result<TensorFile> write_type(const SparseChange& change, DataType type,
                              std::string_view encoding) {
  const bool is_gaps = encoding != "indices";
  ByteWriter positions;
  ByteWriter values;
  std::uint64_t count = 0;
  Json params = Json::array();
  for (const TensorChange& tensor : change.tensors) {
    if (tensor.datatype != type) continue;
    SPARCL_RETURN_IF_ERROR(check_range(tensor, is_gaps));
    const std::size_t start = positions.bytes().size();
    const std::uint64_t width = write_positions(tensor, is_gaps, positions);
    values.write_bytes(tensor.values);
    params.push_back({{"name", tensor.name},
                      {"dtype", torch_name(type)},
                      {"shape", *tensor.shape},
                      {"pos_start", start},
                      {"pos_end", positions.bytes().size()},
                      {"pos_width", width},
                      {"val_start", count},
                      {"val_end", count + tensor.indices.size()}});
    count += tensor.indices.size();
  }
  TensorFile file;
  file.metadata = {{"encoding", std::string(encoding)},
                   {"params", params.dump()},
                   {"prev_version", std::to_string(change.base_version)},
                   {"current_version", std::to_string(change.target_version)}};
  file.schema = {{std::string(kValues), type, {count}},
                 {std::string(kPositions), DataType::kUint8, {positions.bytes().size()}}};
  file.tensors.push_back(values.take());
  file.tensors.push_back(positions.take());
  return file;
}

Result<std::vector<TensorFile>> write(const SparseChange& change, std::string_view encoding) {
  std::set<DataType> types;
  for (const TensorChange& tensor : change.tensors) types.insert(tensor.datatype);
  if (types.empty()) types.insert(DataType::kBfloat16);  // a file with empty lists
  std::vector<TensorFile> files;
  for (const DataType type : types) {
    SPARCL_ASSIGN_OR_RETURN(TensorFile file, write_type(change, type, encoding));
    if (files.empty()) write_own_metadata(change, file.metadata);
    file.name = fmt::format("rank0000_flush{:06}.safetensors", files.size());
    files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<TensorFile>> write_indices(const SparseChange& change) {
  return write(change, "indices");
}
Result<std::vector<TensorFile>> write_deltas(const SparseChange& change) {
  return write(change, "deltas");
}
Result<std::vector<TensorFile>> write_deltas_zstd(const SparseChange& change) {
  return write(change, "deltas_zstd");
}

}  // namespace

const ExchangeFormat kIndicesFormat{
    "indices", "__positions__ (int32) and __values__ with a list of parameters (slime, vime)",
    0,         is_it<false>,
    read,      write_indices};
const ExchangeFormat kDeltasFormat{
    "deltas", "the same with gaps of 2 or 4 bytes", 0, is_it<true>, read, write_deltas};
const ExchangeFormat kDeltasZstdFormat{
    "deltas_zstd", "the same, wrapped in zstd", kZstdLevel, is_it<true>, read, write_deltas_zstd};

}  // namespace sparcl::model
