// Two tensors for each that changes: NAME.indices (int32 or int64, flat positions, ascending) and
// NAME.values (new values, in the tensor's type). As GRAIL and TRL write it; plain, or as a whole
// in zstd.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "src/base/bytes.hpp"
#include "src/model/exchange/exchange_format.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::string_view kIndices = ".indices";
constexpr std::string_view kValues = ".values";
constexpr std::uint64_t kMaxInt32 = 0x7fffffff;
constexpr int kZstdLevel = 3;

bool is_it(const TensorFile& file) {
  return std::ranges::all_of(file.schema, [](const TensorSchema& tensor) {
    return tensor.name.ends_with(kIndices) || tensor.name.ends_with(kValues);
  });
}

Status corrupt_tensor(std::string_view name, const std::string& what) {
  return Status(Code::kCorrupt, fmt::format("tensor {}: {}", in_quotes(name), what));
}

template <class T>
Status read_indices(const std::vector<std::byte>& bytes, TensorChange& tensor) {
  tensor.indices.reserve(bytes.size() / sizeof(T));
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    const T index = load_le<T>(bytes.data() + at);
    if (index < 0) return corrupt_tensor(tensor.name, fmt::format("index {} is negative", index));
    tensor.indices.push_back(static_cast<std::uint64_t>(index));
  }
  return check_ascending(tensor);
}

Status read_pair(const TensorFile& file, std::size_t indices, std::size_t values,
                 TensorChange& tensor) {
  const TensorSchema& index_schema = file.schema[indices];
  const TensorSchema& value_schema = file.schema[values];
  if (index_schema.shape.size() != 1 || index_schema.shape != value_schema.shape) {
    return corrupt_tensor(
        tensor.name,
        fmt::format("its indices and values must be two lists of one length, but are [{}] and [{}]",
                    fmt::join(index_schema.shape, ", "), fmt::join(value_schema.shape, ", ")));
  }
  tensor.datatype = value_schema.datatype;
  tensor.values = file.tensors[values];
  if (index_schema.datatype == DataType::kInt32)
    return read_indices<std::int32_t>(file.tensors[indices], tensor);
  if (index_schema.datatype == DataType::kInt64)
    return read_indices<std::int64_t>(file.tensors[indices], tensor);
  return corrupt_tensor(tensor.name, fmt::format("indices of type {}: I32 or I64 are expected",
                                                 info(index_schema.datatype).safetensors));
}

Status read(const TensorFile& file, SparseChange& change) {
  SPARCL_RETURN_IF_ERROR(read_own_metadata(file, change));
  std::map<std::string, std::pair<std::size_t, std::size_t>, std::less<>>
      pairs;  // place + 1 of indices and values, 0: missing
  for (std::size_t i = 0; i < file.schema.size(); ++i) {
    const std::string& name = file.schema[i].name;
    const bool is_indices = name.ends_with(kIndices);
    if (!is_indices && !name.ends_with(kValues))
      return corrupt_tensor(name, "it is neither a list of indices nor one of values");
    auto& pair = pairs[name.substr(0, name.size() - (is_indices ? kIndices : kValues).size())];
    (is_indices ? pair.first : pair.second) = i + 1;
  }
  for (const auto& [name, pair] : pairs) {
    if (pair.first == 0 || pair.second == 0)
      return corrupt_tensor(name,
                            pair.first == 0 ? "values without indices" : "indices without values");
    TensorChange tensor;
    tensor.name = name;
    SPARCL_RETURN_IF_ERROR(read_pair(file, pair.first - 1, pair.second - 1, tensor));
    if (!tensor.indices.empty()) change.tensors.push_back(std::move(tensor));
  }
  return {};
}

std::vector<std::byte> index_bytes(const TensorChange& tensor, bool is_wide) {
  ByteWriter writer;
  for (const std::uint64_t index : tensor.indices) {
    if (is_wide) {
      writer.write(index);
    } else {
      writer.write(static_cast<std::uint32_t>(index));
    }
  }
  return writer.take();
}

// Widest types first, as the reference writer lays tensors out, so that each is aligned.
void sort_by_width(TensorFile& file) {
  std::vector<std::size_t> order(file.schema.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return element_bytes(file.schema[i].datatype); });
  TensorFile sorted{file.name, {}, std::move(file.metadata), {}};
  for (const std::size_t i : order) {
    sorted.schema.push_back(std::move(file.schema[i]));
    sorted.tensors.push_back(std::move(file.tensors[i]));
  }
  file = std::move(sorted);
}

Result<std::vector<TensorFile>> write(const SparseChange& change) {
  TensorFile file;
  file.metadata.emplace_back("format", "pt");
  write_own_metadata(change, file.metadata);
  for (const TensorChange& tensor : change.tensors) {
    const bool is_wide = tensor.indices.back() > kMaxInt32;
    const std::vector<std::uint64_t> shape{tensor.indices.size()};
    file.schema.push_back({tensor.name + std::string(kIndices),
                           is_wide ? DataType::kInt64 : DataType::kInt32, shape});
    file.tensors.push_back(index_bytes(tensor, is_wide));
    file.schema.push_back({tensor.name + std::string(kValues), tensor.datatype, shape});
    file.tensors.push_back(tensor.values);
  }
  sort_by_width(file);
  return std::vector<TensorFile>{std::move(file)};
}

}  // namespace

const ExchangeFormat kCooFormat{
    "coo", "NAME.indices and NAME.values in safetensors (GRAIL, TRL)", 0, is_it, read, write};
const ExchangeFormat kCooZstdFormat{
    "coo_zstd", "the same, wrapped in zstd (GRAIL)", kZstdLevel, is_it, read, write};

}  // namespace sparcl::model
