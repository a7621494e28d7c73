#pragma once
// A worker of an elastic aggregation: it gets versions of the model as a replica does, trains, and
// contributes what has changed. What it did not send, or what was refused, it keeps in a residual
// (error feedback).

#include <functional>
#include <memory>
#include <vector>

#include "src/base/buffer_pool.hpp"
#include "src/elastic/contributor.hpp"
#include "src/elastic/flat_weights.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::elastic {

struct WorkerOptions {
  std::uint64_t keep = 0;  // elements of a contribution at most, those with the largest magnitude
  sparse::Wire wire = sparse::Wire::kSameType;
};

class Worker {
 public:
  // own: the weights that are trained; base: the version that they started from. Both outlive this.
  Worker(const kernels::KernelSet& kernels, FlatWeights own, FlatWeights base,
         const WorkerOptions& options);

  struct Contribution {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
  };
  // Sends own - base + residual, cut and rounded. weight: the data behind it.
  Result<Contribution> contribute(Contributor& to, std::uint64_t version, double weight);
  // What was refused goes back into the residual.
  void take_back(Contributor& from);
  double residual_l2() const;

 private:
  Result<Contribution> contribute_all(Contributor& to, std::uint64_t version, double weight,
                                      const sparse::WireType& wire);

  const kernels::KernelSet& kernels_;
  FlatWeights own_, base_;
  WorkerOptions options_;
  BufferPool buffers_;
  sparse::Selection selection_;
  std::vector<float> residual_;
};

}  // namespace sparcl::elastic
