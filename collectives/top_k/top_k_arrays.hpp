#pragma once
// The arrays of a top-k all-reduce, and its residual, on the host or on a device, with the
// operations on them. The exchange between them, of values at a support on the host, is the same
// for both.

#include <memory>

#include "collectives/top_k/top_k_all_reduce.hpp"
#include "src/sparse/selection/selection.hpp"
#include "src/sparse/selection/support.hpp"

namespace sparcl::collectives::top_k {

class TopKArrays {
 public:
  virtual ~TopKArrays() = default;

  // Called before the ranks agree: allocates memory. It may fail on this rank alone.
  virtual Status prepare() = 0;
  // residual = acc, and the selected entries, valid as long as this object.
  virtual Result<sparse::Selected> select() = 0;
  // Called after select(), for the support's elements. gather(): acc, as accumulators. take(): the
  // residual's values, which become zero. put(): writes the residual's values.
  virtual Status gather(const sparse::Support& support, std::byte* accumulators) = 0;
  virtual Status take(const sparse::Support& support, std::byte* accumulators) = 0;
  virtual Status put(const sparse::Support& support, const std::byte* accumulators) = 0;
  // Writes the result: elements at the support, +0 elsewhere.
  virtual Status write(const sparse::Support& support, const std::byte* elements) = 0;
};

// Arrays on the host, and on a GPU (call.device), for a communicator of so many ranks. The call
// outlives them.
std::unique_ptr<TopKArrays> top_k_on_host(const kernels::KernelSet& kernels, const TopKCall& call);
std::unique_ptr<TopKArrays> top_k_on_device(const kernels::KernelSet& kernels, const TopKCall& call,
                                            int ranks);

}  // namespace sparcl::collectives::top_k
