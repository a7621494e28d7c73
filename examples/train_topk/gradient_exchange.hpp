#pragma once
// The part of this program that is about sparcl: each rank's gradient becomes the mean over all
// ranks, wholly or in part.

#include <memory>
#include <optional>
#include <span>

#include "exchange_variant.hpp"
#include "sparcl/sparcl.hpp"

namespace training {

class GradientExchange {
 public:
  virtual ~GradientExchange() = default;

  // Collective. mean: as long as gradient; 0 at elements without an exchange. step counts from 0.
  // Returns sparcl's report, or nothing if the bytes went through MPI.
  virtual std::optional<sparcl::Report> mean(std::span<const float> gradient, int step,
                                             std::span<float> mean) = 0;
};

struct ExchangeSettings {
  std::size_t count = 0;   // elements of the gradient
  std::uint64_t seed = 0;  // of masks
  sparclTopKMode_t mode = sparclTopKUnion;
  int warmup_steps = 0;  // in which the density of topk falls to its value
};

// The communicator must outlive it.
std::unique_ptr<GradientExchange> make_exchange(sparcl::Comm& comm, const Variant& variant,
                                                const ExchangeSettings& settings);

// Through MPI_Allreduce on MPI_COMM_WORLD; nullptr where the ranks are threads, or where this
// program was built without MPI.
std::unique_ptr<GradientExchange> make_mpi_exchange();

}  // namespace training
