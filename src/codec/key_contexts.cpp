#include "src/codec/key_contexts.hpp"

#include <algorithm>

namespace sparcl::codec {

void find_contexts(std::span<const std::uint8_t> bounds, const std::uint8_t* keys,
                   std::size_t count, std::uint8_t* contexts) {
  std::array<std::uint8_t, 256> table{};
  for (const std::uint8_t bound : bounds) ++table[bound];
  for (std::size_t key = 1; key < table.size(); ++key)
    table[key] = static_cast<std::uint8_t>(table[key] + table[key - 1]);
  for (std::size_t i = 0; i < count; ++i) contexts[i] = table[keys[i]];
}

void ContextChoice::choose(const std::uint8_t* keys, const std::uint8_t* symbols,
                           std::size_t count) {
  clear();
  for (std::size_t i = 0; i < count; ++i) ++by_key_[keys[i]][symbols[i]];
  make_groups();
  const auto change = [&](std::size_t i) {  // of the cost, if group i is joined with the next
    return static_cast<std::int64_t>(groups_[i].joined_cost) -
           static_cast<std::int64_t>(groups_[i].cost + groups_[i + 1].cost);
  };
  while (groups_.size() > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < groups_.size(); ++i) {
      if (change(i) < change(best)) best = i;
    }
    if (groups_.size() <= kernels::kRansContexts && change(best) >= 0) return;
    join_next(best);
  }
}

std::uint64_t ContextChoice::min_cost(const Some& others, const Some& key_sample,
                                      std::size_t count) {
  clear();
  std::array<std::uint32_t, kKeys> sampled{};
  std::array<std::uint32_t, kKeys> with_symbol{};
  for (std::size_t i = 0; i < key_sample.count; ++i) ++sampled[key_sample.keys[i]];
  std::uint8_t most = 0;
  for (std::size_t i = 0; i < others.count; ++i) {
    ++by_key_[others.keys[i]][others.symbols[i]];
    ++with_symbol[others.keys[i]];
    most = std::max(most, others.symbols[i]);
  }
  std::uint64_t cost = 0;
  for (std::size_t key = 0; key < kKeys; ++key) {
    if (with_symbol[key] == 0) continue;
    const auto elements =
        static_cast<std::uint32_t>(std::uint64_t{sampled[key]} * count / key_sample.count);
    by_key_[key][0] = elements - std::min(elements, with_symbol[key]);
    cost += symbols_cost({by_key_[key].data(), most + std::size_t{1}});
  }
  return cost;
}

void ContextChoice::make_groups() {
  groups_.clear();
  symbols_ = 0;
  for (unsigned key = 0; key < kKeys; ++key) {
    const auto used = std::find_if(by_key_[key].rbegin(), by_key_[key].rend(),
                                   [](std::uint32_t times) { return times > 0; });
    if (used == by_key_[key].rend()) continue;
    symbols_ = std::max(symbols_, static_cast<std::size_t>(by_key_[key].rend() - used));
    groups_.push_back({key, by_key_[key], 0, 0});
  }
  for (Group& group : groups_) group.cost = cost_of(group.counts);
  for (std::size_t i = 0; i + 1 < groups_.size(); ++i) consider_next(i);
}

std::uint64_t ContextChoice::cost_of(const Counts& counts) const {
  const std::span<const std::uint32_t> used(counts.data(), symbols_);
  return symbols_cost(used) + table_cost(used);
}

void ContextChoice::join_next(std::size_t group) {
  Group& joined = groups_[group];
  for (std::size_t i = 0; i < symbols_; ++i) joined.counts[i] += groups_[group + 1].counts[i];
  joined.cost = joined.joined_cost;
  groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(group) + 1);
  if (group + 1 < groups_.size()) consider_next(group);
  if (group > 0) consider_next(group - 1);
}

void ContextChoice::consider_next(std::size_t group) {
  Counts sum;
  for (std::size_t i = 0; i < symbols_; ++i)
    sum[i] = groups_[group].counts[i] + groups_[group + 1].counts[i];
  groups_[group].joined_cost = cost_of(sum);
}

std::uint64_t ContextChoice::cost() const {
  std::uint64_t cost = 0;
  for (const Group& group : groups_) cost += group.cost;
  return cost;
}

std::vector<std::uint8_t> ContextChoice::bounds() const {
  std::vector<std::uint8_t> bounds;
  for (std::size_t i = 1; i < groups_.size(); ++i)
    bounds.push_back(static_cast<std::uint8_t>(groups_[i].first));
  return bounds;
}

std::vector<Frequencies> ContextChoice::tables() const {
  std::vector<Frequencies> tables;
  for (const Group& group : groups_) tables.push_back(normalise({group.counts.data(), symbols_}));
  return tables;
}

}  // namespace sparcl::codec
