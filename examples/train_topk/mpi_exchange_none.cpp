#include "gradient_exchange.hpp"

namespace training {

std::unique_ptr<GradientExchange> make_mpi_exchange() { return nullptr; }

}  // namespace training
