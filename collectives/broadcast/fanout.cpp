#include "collectives/broadcast/fanout.hpp"

#include <array>

namespace sparcl::collectives::broadcast {
namespace {

constexpr std::array kFanoutTable{
    FanoutRow{"chain", chain_links, chain_seconds},
    FanoutRow{"binary_tree", binary_tree_links, binary_tree_seconds},
    FanoutRow{"binomial_tree", binomial_tree_links, binomial_tree_seconds},
};

}  // namespace

std::span<const FanoutRow> fanout_table() { return kFanoutTable; }

FanoutPlan plan_fanout(const LinkCost& link, int size, std::uint64_t bytes,
                       std::string_view forced_name, std::uint32_t forced_bytes) {
  FanoutPlan best{nullptr, 0, 0, 0};
  for (std::uint32_t index = 0; index < kFanoutTable.size(); ++index) {
    const FanoutRow& row = kFanoutTable[index];
    if (forced_name != "auto" && forced_name != row.name) continue;
    for (std::uint32_t fragment = kMinFragmentBytes; fragment <= kMaxFragmentBytes; fragment *= 2) {
      if (forced_bytes != 0 && fragment != forced_bytes) continue;
      const double seconds = row.seconds(link, size, bytes, fragment);
      if (best.row == nullptr || seconds < best.seconds) best = {&row, index, fragment, seconds};
    }
  }
  return best;
}

}  // namespace sparcl::collectives::broadcast
