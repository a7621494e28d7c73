#include "src/model/exchange/sparse_change.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint64_t kPiece = 65536;  // of a kernel's call

Status corrupt_change(const TensorChange& tensor, const std::string& what) {
  return Status(Code::kCorrupt, fmt::format("tensor {}: {}", in_quotes(tensor.name), what));
}

std::map<std::string_view, std::size_t> places_by_name(const Schema& schema) {
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < schema.size(); ++i) places.emplace(schema[i].name, i);
  return places;
}

std::uint64_t elements_of(const TensorSchema& tensor) {
  return *element_count(tensor);
}  // schemas are valid here

Status check_type(const TensorSchema& tensor) {
  if (!tensor.opaque) return {};
  return Status(Code::kUnsupported,
                fmt::format("tensor {} is {}: layouts of other programs have no place for changes "
                            "of this type: exchange sparcl's own deltas",
                            in_quotes(tensor.name), describe_kind(tensor)));
}

}  // namespace

std::uint64_t SparseChange::changed() const {
  std::uint64_t count = 0;
  for (const TensorChange& tensor : tensors) count += tensor.indices.size();
  return count;
}

const TensorChange* SparseChange::find(std::string_view name) const {
  for (const TensorChange& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

void compare_values(std::uint64_t first, std::uint64_t count, const std::byte* before,
                    const std::byte* after, const kernels::KernelSet& kernels,
                    TensorChange& change) {
  const std::size_t width = element_bytes(change.datatype);
  std::vector<std::uint16_t> positions(kPiece + kernels::kPositionSlack);
  for (std::uint64_t done = 0; done < count; done += kPiece) {
    const std::uint64_t some = std::min(kPiece, count - done);
    const std::byte* from = after + done * width;
    const std::size_t found =
        kernels.of(change.datatype).diff(before + done * width, from, some, 0, positions.data());
    for (std::size_t j = 0; j < found; ++j) {
      change.indices.push_back(first + done + positions[j]);
      change.values.insert(change.values.end(), from + positions[j] * width,
                           from + (positions[j] + std::size_t{1}) * width);
    }
  }
}

Result<SparseChange> compare_tensors(const Schema& schema, const codec::ArrayInput& base,
                                     const codec::ArrayInput& target,
                                     const kernels::KernelSet& kernels) {
  SparseChange change;
  std::vector<std::byte> old_values, new_values;
  for (std::uint32_t i = 0; i < schema.size(); ++i) {
    const std::size_t width = element_bytes(schema[i].datatype);
    TensorChange tensor{schema[i].name, schema[i].datatype, schema[i].shape, {}, {}};
    const std::uint64_t elements = elements_of(schema[i]);
    for (std::uint64_t first = 0; first < elements; first += kPiece) {
      const std::uint64_t count = std::min(kPiece, elements - first);
      const std::byte* before = base.read(i, first, count, width, old_values);
      const std::byte* from = target.read(i, first, count, width, new_values);
      compare_values(first, count, before, from, kernels, tensor);
    }
    if (tensor.indices.empty()) continue;
    SPARCL_RETURN_IF_ERROR(check_type(schema[i]));
    change.tensors.push_back(std::move(tensor));
  }
  return change;
}

Status check_names(const SparseChange& change) {
  std::set<std::string_view> names;
  for (const TensorChange& tensor : change.tensors) {
    if (!names.insert(tensor.name).second) return corrupt_change(tensor, "it comes twice");
  }
  return {};
}

Status match_schema(const Schema& schema, SparseChange& change) {
  SPARCL_RETURN_IF_ERROR(check_names(change));
  const std::map<std::string_view, std::size_t> places = places_by_name(schema);
  for (TensorChange& tensor : change.tensors) {
    const auto found = places.find(tensor.name);
    if (found == places.end()) {
      return Status(Code::kMismatch,
                    fmt::format("the base has no tensor {}", in_quotes(tensor.name)));
    }
    const TensorSchema& held = schema[found->second];
    SPARCL_RETURN_IF_ERROR(check_type(held));
    if (held.datatype != tensor.datatype || (tensor.shape && *tensor.shape != held.shape)) {
      return Status(Code::kMismatch,
                    fmt::format("tensor {} is {} [{}] in the base, {} [{}] in the change",
                                in_quotes(tensor.name), info(held.datatype).safetensors,
                                fmt::join(held.shape, ", "), info(tensor.datatype).safetensors,
                                fmt::join(tensor.shape ? *tensor.shape : held.shape, ", ")));
    }
    tensor.shape = held.shape;
    if (!tensor.indices.empty() && tensor.indices.back() >= elements_of(held)) {
      return corrupt_change(tensor, fmt::format("index {} is past its {} elements",
                                                tensor.indices.back(), elements_of(held)));
    }
  }
  return {};
}

std::uint64_t apply_tensors(const SparseChange& change, const Schema& schema,
                            std::span<std::byte* const> tensors) {
  const std::map<std::string_view, std::size_t> places = places_by_name(schema);
  std::uint64_t unchanged = 0;
  for (const TensorChange& tensor : change.tensors) {
    std::byte* array = tensors[places.at(tensor.name)];
    const std::size_t width = element_bytes(tensor.datatype);
    for (std::size_t i = 0; i < tensor.indices.size(); ++i) {
      std::byte* held = array + tensor.indices[i] * width;
      const std::byte* value = tensor.values.data() + i * width;
      if (std::memcmp(held, value, width) == 0) ++unchanged;
      std::memcpy(held, value, width);
    }
  }
  return unchanged;
}

Status check_ascending(const TensorChange& tensor) {
  const auto at =
      std::adjacent_find(tensor.indices.begin(), tensor.indices.end(), std::greater_equal<>());
  if (at == tensor.indices.end()) return {};
  return corrupt_change(tensor, fmt::format("indices must ascend, but {} follows {} (at {})", at[1],
                                            at[0], at - tensor.indices.begin() + 1));
}

}  // namespace sparcl::model
