// Top-k of arrays in the host's memory.
#include "collectives/top_k/top_k_arrays.hpp"

#include <optional>

#include "src/sparse/selection/residual.hpp"

namespace sparcl::collectives::top_k {
namespace {

class HostTopK final : public TopKArrays {
 public:
  HostTopK(const kernels::KernelSet& kernels, const TopKCall& call)
      : kernels_(kernels),
        call_(call),
        accumulator_bytes_(element_bytes(kernels::accumulator_type(call.datatype))),
        residual_(call.feedback != nullptr ? call.feedback->residual() : nullptr) {}

  Status prepare() override { return Status(); }

  Result<sparse::Selected> select() override {
    selection_.emplace(call_.datatype, kernels_);
    if (!call_.tensors.empty())
      return selection_->select_parts(call_.send, residual_, call_.tensors);
    const std::uint64_t hint =
        call_.reuses_threshold && call_.feedback != nullptr ? call_.feedback->least : 0;
    return selection_->select(call_.send, residual_, call_.count, call_.k, hint);
  }

  Status gather(const sparse::Support& support, std::byte* accumulators) override {
    gather_accumulators(kernels_, call_.datatype, support, call_.send, residual_, accumulators);
    return Status();
  }
  Status take(const sparse::Support& support, std::byte* accumulators) override {
    support.take(residual_, accumulator_bytes_, accumulators);
    return Status();
  }
  Status put(const sparse::Support& support, const std::byte* accumulators) override {
    support.put(accumulators, accumulator_bytes_, residual_);
    return Status();
  }
  Status write(const sparse::Support& support, const std::byte* elements) override {
    write_supported(kernels_, support, elements, element_bytes(call_.datatype), call_.count,
                    call_.receive);
    return Status();
  }

 private:
  const kernels::KernelSet& kernels_;
  const TopKCall& call_;
  std::size_t accumulator_bytes_;
  std::byte* residual_;  // nullptr: none
  std::optional<sparse::Selection> selection_;
};

}  // namespace

std::unique_ptr<TopKArrays> top_k_on_host(const kernels::KernelSet& kernels, const TopKCall& call) {
  return std::make_unique<HostTopK>(kernels, call);
}

}  // namespace sparcl::collectives::top_k
