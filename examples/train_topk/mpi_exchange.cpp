#include <mpi.h>

#include <language_model/rank_launcher.hpp>
#include <stdexcept>

#include "gradient_exchange.hpp"

namespace training {
namespace {

class MpiExchange final : public GradientExchange {
 public:
  std::optional<sparcl::Report> mean(std::span<const float> gradient, int /*step*/,
                                     std::span<float> mean) override {
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (MPI_Allreduce(gradient.data(), mean.data(), static_cast<int>(gradient.size()), MPI_FLOAT,
                      MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS)
      throw std::runtime_error("MPI_Allreduce failed");
    const float share = 1.0F / static_cast<float>(ranks);
    for (float& value : mean) value *= share;
    return std::nullopt;
  }
};

}  // namespace

std::unique_ptr<GradientExchange> make_mpi_exchange() {
  if (!is_started_by_mpi()) return nullptr;
  return std::make_unique<MpiExchange>();
}

}  // namespace training
