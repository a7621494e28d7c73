#include "src/model/exchange/change_base.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <filesystem>

#include "src/model/shard_index.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::string_view kVersionPrefix = "weight_v";  // slime and its like
constexpr std::string_view kDeltaPrefix = "delta-";      // SkyRL

std::optional<std::uint64_t> version_of(const Checkpoint& checkpoint) {
  std::filesystem::path path = std::filesystem::path(checkpoint.path()).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  if (checkpoint.layout().is_folder && name.starts_with(kVersionPrefix)) return version_in(name);
  if (checkpoint.layout().index.empty()) return {};
  const Result<ShardIndex> index = parse_shard_index(checkpoint.layout().index);
  const std::string* text = index.ok() ? find_metadata(index->metadata, "version") : nullptr;
  return text == nullptr ? std::nullopt : version_in(*text);
}

}  // namespace

std::optional<std::uint64_t> version_in(std::string_view text) {
  for (const std::string_view prefix : {kVersionPrefix, kDeltaPrefix}) {
    if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
  }
  std::uint64_t version = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, version);
  if (error != std::errc() || last != end) return {};
  return version;
}

ChangeBase::ChangeBase(const Schema& schema, std::string path, const kernels::KernelSet& kernels)
    : schema_(schema), path_(std::move(path)), kernels_(&kernels) {
  for (std::size_t i = 0; i < schema_.size(); ++i) by_name_.emplace(schema_[i].name, i);
}

Result<ChangeBase> ChangeBase::open(const std::string& path, const kernels::KernelSet& kernels) {
  SPARCL_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open_unread(path));
  ChangeBase base(checkpoint.schema(), path, kernels);
  base.version_ = version_of(checkpoint);
  base.checkpoint_.emplace(std::move(checkpoint));
  return base;
}

ChangeBase ChangeBase::over(const Schema& schema, std::span<const std::byte* const> tensors,
                            std::string name, std::optional<std::uint64_t> version,
                            const kernels::KernelSet& kernels) {
  ChangeBase base(schema, std::move(name), kernels);
  base.tensors_.assign(tensors.begin(), tensors.end());
  base.version_ = version;
  return base;
}

Status ChangeBase::check_version(std::optional<std::uint64_t> wanted) const {
  if (!wanted || !version_ || *wanted == *version_) return {};
  return Status(Code::kWrongBase,
                fmt::format("it is for version {}, {} is version {}: give the checkpoint of "
                            "version {}",
                            *wanted, path(), *version_, *wanted));
}

Result<std::size_t> ChangeBase::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return Status(Code::kMismatch,
                  fmt::format("tensor {}: {} has no tensor of this name", in_quotes(name), path()));
  }
  const TensorSchema& tensor = schema_[found->second];
  if (!tensor.opaque) return found->second;
  return Status(Code::kUnsupported,
                fmt::format("tensor {} is {}: changes of such types are exchanged by sparcl's own "
                            "deltas only",
                            in_quotes(name), describe_kind(tensor)));
}

Result<std::vector<std::byte>> ChangeBase::read(std::size_t tensor) const {
  const std::uint64_t size =
      *element_count(schema_[tensor]) * element_bytes(schema_[tensor].datatype);
  if (!checkpoint_) return std::vector<std::byte>(tensors_[tensor], tensors_[tensor] + size);
  std::vector<std::byte> bytes(size);
  SPARCL_RETURN_IF_ERROR(checkpoint_->read(tensor, 0, bytes));
  return bytes;
}

Status ChangeBase::add(std::size_t tensor, std::span<const std::byte> old_bytes,
                       std::span<const std::byte> new_bytes, TensorDigest kind,
                       const std::string& digest, SparseChange& change) const {
  const TensorSchema& schema = schema_[tensor];
  SPARCL_ASSIGN_OR_RETURN(const std::string found, digest_of(kind, new_bytes));
  if (found != digest) {
    SPARCL_ASSIGN_OR_RETURN(const std::string before, digest_of(kind, old_bytes));
    const std::string what =
        fmt::format("tensor {}: the new bytes have {} {}, {} is named", in_quotes(schema.name),
                    digest_name(kind), found, in_quotes(digest));
    if (before == digest) {
      return Status(Code::kWrongBase,
                    fmt::format("{}: the old bytes have it: {} holds this version already: give "
                                "the checkpoint before it",
                                what, path()));
    }
    return Status(Code::kCorrupt, fmt::format("{}: {} is not the base of this version, or a file "
                                              "is damaged: give the checkpoint before it",
                                              what, path()));
  }
  TensorChange added{schema.name, schema.datatype, schema.shape, {}, {}};
  compare_values(0, old_bytes.size() / element_bytes(schema.datatype), old_bytes.data(),
                 new_bytes.data(), *kernels_, added);
  if (!added.indices.empty()) change.tensors.push_back(std::move(added));
  return {};
}

void ChangeBase::apply(const TensorChange& tensor, std::span<std::byte> bytes) const {
  const std::size_t width = element_bytes(tensor.datatype);
  for (std::size_t i = 0; i < tensor.indices.size(); ++i)
    std::memcpy(bytes.data() + tensor.indices[i] * width, tensor.values.data() + i * width, width);
}

}  // namespace sparcl::model
