#pragma once
// The arrays of a top-k all-reduce, and its residual, where they lie: what is done with them there.
// What is between (values at a support, on the host) is the same for both places.

#include <memory>

#include "collectives/top_k/top_k_all_reduce.hpp"
#include "src/sparse/selection/selection.hpp"
#include "src/sparse/selection/support.hpp"

namespace sparcl::collectives::top_k {

class TopKArrays {
 public:
  virtual ~TopKArrays() = default;

  // Before the ranks agree: takes what the call needs. Here it may fail for this rank alone.
  virtual Status prepare() = 0;
  // residual = acc, and what is selected of it: good as long as this.
  virtual Result<sparse::Selected> select() = 0;
  // After it; of the support's elements. acc, as accumulators; the residual's, of which zeros stay
  // behind; the residual's.
  virtual Status gather(const sparse::Support& support, std::byte* accumulators) = 0;
  virtual Status take(const sparse::Support& support, std::byte* accumulators) = 0;
  virtual Status put(const sparse::Support& support, const std::byte* accumulators) = 0;
  // The result: elements where the support is, +0 elsewhere.
  virtual Status write(const sparse::Support& support, const std::byte* elements) = 0;
};

// In the host's memory; and in a GPU's (call.device), for a comm of so many ranks. The call
// outlives them.
std::unique_ptr<TopKArrays> top_k_on_host(const kernels::KernelSet& kernels, const TopKCall& call);
std::unique_ptr<TopKArrays> top_k_on_device(const kernels::KernelSet& kernels, const TopKCall& call,
                                            int ranks);

}  // namespace sparcl::collectives::top_k
