#include "src/comm/cost_model.hpp"

#include <algorithm>

namespace sparcl::comm {

LinkCost link_cost(const transport::Transport& transport) {
  if (transport.capabilities().single_node) return {1e-6, 1.0 / 5e9};
  return {20e-6, 1.0 / 1.2e9};  // between a 10 Gbit/s link and a fast one
}

codec::LinkTime link_time(const transport::Transport& transport, double gbit_per_s) {
  const double ps_per_byte =
      gbit_per_s > 0 ? 8000 / gbit_per_s : link_cost(transport).beta_s_per_byte * 1e12;
  return {static_cast<std::uint32_t>(std::clamp(ps_per_byte, 1.0, 1e9)),
          transport.capabilities().single_node};
}

std::uint64_t guess_update_bytes(std::uint64_t dense_bytes) {
  return std::max<std::uint64_t>(256, dense_bytes / 160);
}

double pipeline_seconds(const LinkCost& link, std::uint64_t bytes, std::uint64_t fragment_bytes,
                        int degree, int depth) {
  const std::uint64_t fragments =
      std::max<std::uint64_t>(1, (bytes + fragment_bytes - 1) / fragment_bytes);
  const double piece = static_cast<double>(std::min(bytes, fragment_bytes));
  const double turn = degree * (link.alpha_s + piece * link.beta_s_per_byte);
  return turn * static_cast<double>(fragments - 1) + turn * depth;
}

}  // namespace sparcl::comm
