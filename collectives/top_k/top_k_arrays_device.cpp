// Top-k of arrays in a GPU's memory. Elements are selected on the device; only the selected
// entries, and values at the exchange's supports, are copied. Runs in the order of the call's
// stream; each step waits for it.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "collectives/top_k/top_k_arrays.hpp"
#include "src/base/stage_range.hpp"
#include "src/device/device_scratch.hpp"
#include "src/sparse/selection/residual.hpp"
#include "src/sparse/selection/support_transfer.hpp"

namespace sparcl::collectives::top_k {
namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

class DeviceTopK final : public TopKArrays {
 public:
  DeviceTopK(const kernels::KernelSet& kernels, const TopKCall& call, int ranks)
      : kernels_(kernels),
        call_(call),
        scratch_(*call.device),
        ranks_(static_cast<std::uint64_t>(ranks)),
        accumulator_(kernels::accumulator_type(call.datatype)),
        parts_(call.tensors) {
    if (parts_.empty()) parts_.push_back({call.count, call.k});
  }

  Status prepare() override;
  Result<sparse::Selected> select() override;
  Status gather(const sparse::Support& support, std::byte* accumulators) override;
  Status take(const sparse::Support& support, std::byte* accumulators) override {
    return transfer_->take(support, residual_, accumulator_bytes(), accumulators);
  }
  Status put(const sparse::Support& support, const std::byte* accumulators) override {
    return transfer_->put(support, accumulators, accumulator_bytes(), residual_);
  }
  Status write(const sparse::Support& support, const std::byte* elements) override;

 private:
  std::size_t accumulator_bytes() const { return element_bytes(accumulator_); }
  Status enqueue_selections();
  sparse::Selected compact();

  const kernels::KernelSet& kernels_;
  const TopKCall& call_;
  device::DeviceScratch& scratch_;
  std::uint64_t ranks_;
  DataType accumulator_;
  std::vector<sparse::Selection::Part> parts_;
  std::byte* residual_ = nullptr;  // nullptr: none
  // On the host and on the device: the number found in each part, indices, accumulators. The
  // entries of a part begin at its share of k. On the device the kernels' workspace comes first.
  std::size_t workspace_bytes_ = 0, indices_at_ = 0, accumulators_at_ = 0, entries_bytes_ = 0;
  std::byte *workspace_ = nullptr, *on_device_ = nullptr, *pinned_ = nullptr;
  std::optional<sparse::SupportTransfer> transfer_;
};

Status DeviceTopK::prepare() {
  std::uint64_t k = 0;
  for (const sparse::Selection::Part& part : parts_) {
    workspace_bytes_ = std::max(workspace_bytes_, scratch_.kernels().top_k.workspace_bytes(
                                                      part.count, part.k, call_.datatype));
    k += part.k;
  }
  workspace_bytes_ = padded(workspace_bytes_);
  indices_at_ = parts_.size() * sizeof(std::uint64_t);
  accumulators_at_ = indices_at_ + k * sizeof(std::uint64_t);
  entries_bytes_ = padded(accumulators_at_ + k * accumulator_bytes());
  // The upper limit of the entries that all ranks select together.
  const std::uint64_t most = k > call_.count / ranks_ ? call_.count : k * ranks_;
  const std::size_t transfer_bytes = sparse::SupportTransfer::memory_bytes(most);
  const Result<std::byte*> device =
      scratch_.on_device(workspace_bytes_ + entries_bytes_ + transfer_bytes);
  if (!device.ok()) return device.status().with_prefix("top-k's workspace: ");
  const Result<std::byte*> pinned = scratch_.pinned(entries_bytes_ + transfer_bytes);
  if (!pinned.ok()) return pinned.status().with_prefix("staging for top-k: ");
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (call_.feedback != nullptr) {
    SPARCL_ASSIGN_OR_RETURN(const auto residual,
                            call_.feedback->use_on_device(scratch_.context(), call_.stream, false));
    residual_ = static_cast<std::byte*>((residual)->data());
  }
  workspace_ = *device;
  on_device_ = workspace_ + workspace_bytes_;
  pinned_ = *pinned;
  transfer_.emplace(scratch_.kernels(), scratch_.context(), call_.stream, most,
                    on_device_ + entries_bytes_, pinned_ + entries_bytes_);
  // An earlier error in the stream is not an error of this call's peers.
  const Result<bool> captured = gpu::is_capturing(call_.stream);
  if (!captured.ok()) return captured.status();
  if (*captured)
    return Status(Code::kInvalidUsage, "the stream is being captured, but this call waits for it");
  return gpu::is_idle(call_.stream).status();
}

Result<sparse::Selected> DeviceTopK::select() {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  SPARCL_RETURN_IF_ERROR(enqueue_selections());
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(pinned_, on_device_, entries_bytes_, call_.stream));
  SPARCL_RETURN_IF_ERROR(gpu::wait_for(call_.stream));
  return compact();
}

Status DeviceTopK::enqueue_selections() {
  std::uint64_t first = 0, given = 0;
  auto* const found = reinterpret_cast<std::uint64_t*>(on_device_);
  auto* const indices = reinterpret_cast<std::uint64_t*>(on_device_ + indices_at_);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    kernels::TopK part{};
    part.values = call_.send + first * element_bytes(call_.datatype);
    part.residual = residual_ != nullptr ? residual_ + first * accumulator_bytes() : nullptr;
    part.count = parts_[i].count;
    part.k = parts_[i].k;
    part.indices = indices + given;
    part.taken = on_device_ + accumulators_at_ + given * accumulator_bytes();
    part.found = found + i;
    SPARCL_RETURN_IF_ERROR(scratch_.kernels().top_k.run(part, call_.datatype, workspace_,
                                                        workspace_bytes_, call_.stream));
    first += parts_[i].count;
    given += parts_[i].k;
  }
  return Status();
}

// Moves the parts' entries together, with indices of the whole array.
sparse::Selected DeviceTopK::compact() {
  auto* const indices = reinterpret_cast<std::uint64_t*>(pinned_ + indices_at_);
  std::byte* const accumulators = pinned_ + accumulators_at_;
  const std::size_t width = accumulator_bytes();
  std::uint64_t first = 0, given = 0, size = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::uint64_t found = reinterpret_cast<const std::uint64_t*>(pinned_)[i];
    for (std::uint64_t j = 0; j < found; ++j) indices[size + j] = indices[given + j] + first;
    if (size != given)
      std::memmove(accumulators + size * width, accumulators + given * width, found * width);
    size += found;
    first += parts_[i].count;
    given += parts_[i].k;
  }
  sparse::Selected selected{{indices, size}, accumulators};
  const sparse::Candidates keys(accumulator_);
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t key = keys.key(accumulators + i * width);
    selected.least = selected.least == 0 ? key : std::min(selected.least, key);
  }
  selected.taken = size;
  selected.passes = 1;
  return selected;
}

Status DeviceTopK::gather(const sparse::Support& support, std::byte* accumulators) {
  if (residual_ != nullptr)
    return transfer_->gather(support, residual_, accumulator_bytes(), accumulators);
  const std::size_t width = element_bytes(call_.datatype);
  std::vector<std::byte> elements(support.size() * width);
  SPARCL_RETURN_IF_ERROR(transfer_->gather(support, call_.send, width, elements.data()));
  sparse::widen_from_wire(kernels_, {accumulator_, call_.datatype}, elements.data(), support.size(),
                          accumulators);
  return Status();
}

Status DeviceTopK::write(const sparse::Support& support, const std::byte* elements) {
  const StageRange range("scatter");
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  const std::size_t width = element_bytes(call_.datatype);
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_zeros(call_.receive, call_.count * width, call_.stream));
  SPARCL_RETURN_IF_ERROR(transfer_->put(support, elements, width, call_.receive));
  return gpu::wait_for(call_.stream);
}

}  // namespace

std::unique_ptr<TopKArrays> top_k_on_device(const kernels::KernelSet& kernels, const TopKCall& call,
                                            int ranks) {
  return std::make_unique<DeviceTopK>(kernels, call, ranks);
}

}  // namespace sparcl::collectives::top_k
