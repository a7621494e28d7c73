#include "collectives/table/collective_table.hpp"

#include <array>
#include <string>

#include "collectives/aggregate/aggregation.hpp"
#include "collectives/broadcast/broadcast_descriptor.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/dense/dense.hpp"
#include "collectives/group/version_round.hpp"
#include "collectives/masked/masked.hpp"
#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "collectives/top_k/top_k_all_reduce.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::array kChoices{&broadcast::kFanoutAlgorithms, &dense::kDenseAlgorithms,
                              &sparse_sum::kSparseSumAlgorithms,
                              &aggregate::kAggregateAlgorithms};

std::string choices_of(const comm::AlgorithmChoice& choice) {
  std::string text = "auto";
  for (const std::string_view name : choice.names()) text.append("|").append(name);
  return text;
}

}  // namespace

comm::CollectiveTable collective_table() {
  static constexpr std::array kTable{&broadcast::kBroadcastDelta,   &broadcast::kBroadcastUpdate,
                                     &broadcast::kBroadcastSparse,  &masked::kAllReduceMasked,
                                     &sparse_sum::kAllReduceSparse, &top_k::kAllReduceTopK,
                                     &aggregate::kAggregate,        &group::kSubscriberNextGroup};
  return kTable;
}

std::span<const SettingRow> algorithm_settings() {
  static const auto texts = [] {
    std::array<std::string, kChoices.size()> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = choices_of(*kChoices[i]);
    return all;
  }();
  static const auto rows = [] {
    std::array<SettingRow, kChoices.size()> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const comm::AlgorithmChoice& choice = *kChoices[i];
      all[i] = {choice.setting, SettingType::kChoice, texts[i], "auto", choice.meaning};
    }
    return all;
  }();
  return rows;
}

Result<std::string> chosen_algorithm(const comm::AlgorithmChoice& choice) {
  std::size_t i = 0;
  while (kChoices[i] != &choice) ++i;
  return setting_choice(algorithm_settings()[i]);
}

std::vector<SettingRow> all_setting_rows() {
  std::vector<SettingRow> all(setting_rows().begin(), setting_rows().end());
  all.insert(all.end(), algorithm_settings().begin(), algorithm_settings().end());
  return all;
}

}  // namespace sparcl::collectives
