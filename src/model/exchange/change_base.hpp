#pragma once
// The state that a change is for, read tensor by tensor: a checkpoint, or tensors in memory.

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/exchange/sparse_change.hpp"
#include "src/model/exchange/tensor_digest.hpp"

namespace sparcl::model {

class ChangeBase {
 public:
  static Result<ChangeBase> open(const std::string& path, const kernels::KernelSet& kernels);
  // Of tensors in memory, which outlive it. name: in messages, instead of a path.
  static ChangeBase over(const Schema& schema, std::span<const std::byte* const> tensors,
                         std::string name, std::optional<std::uint64_t> version,
                         const kernels::KernelSet& kernels);

  const Schema& schema() const { return schema_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }  // only after open()
  const std::string& path() const { return path_; }
  // The version that the folder's name (weight_v000007) or its index names, if one does.
  const std::optional<std::uint64_t>& version() const { return version_; }

  // WrongBase: the change is for another version than the one that is named here.
  Status check_version(std::optional<std::uint64_t> wanted) const;

  // Mismatch: the base has no tensor of this name. Unsupported: its type is opaque.
  Result<std::size_t> find(std::string_view name) const;
  Result<std::vector<std::byte>> read(std::size_t tensor) const;

  // Adds the tensor's changes to `change`, after its new bytes have been checked. A digest that
  // differs is WrongBase if the old bytes have it: the change is applied already.
  Status add(std::size_t tensor, std::span<const std::byte> old_bytes,
             std::span<const std::byte> new_bytes, TensorDigest kind, const std::string& digest,
             SparseChange& change) const;
  // The bytes of a tensor of `change` after it.
  void apply(const TensorChange& tensor, std::span<std::byte> bytes) const;

 private:
  ChangeBase(const Schema& schema, std::string path, const kernels::KernelSet& kernels);

  Schema schema_;
  std::string path_;
  const kernels::KernelSet* kernels_;
  std::optional<Checkpoint> checkpoint_;
  std::vector<const std::byte*> tensors_;  // without a checkpoint
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::optional<std::uint64_t> version_;
};

// "weight_v000007", "delta-00000007" or "000007": 7; nothing for other texts.
std::optional<std::uint64_t> version_in(std::string_view text);

}  // namespace sparcl::model
