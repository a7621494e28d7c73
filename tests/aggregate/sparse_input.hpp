#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "src/base/buffer_pool.hpp"
#include "src/base/seeded_random.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::aggregate::test {

constexpr sparse::BlockRun kRun{0, 3, 16};
constexpr std::uint64_t kElements = 3 * 65536;

struct Entries {
  std::vector<std::uint64_t> indices;
  std::vector<float> values;
};

inline Entries random_entries(SeededRandom& random, std::size_t count, std::uint64_t elements) {
  std::set<std::uint64_t> indices;
  while (indices.size() < count) indices.insert(random.below(elements));
  Entries entries{{indices.begin(), indices.end()}, {}};
  for (std::size_t i = 0; i < count; ++i)
    entries.values.push_back(
        static_cast<float>(std::ldexp(random.unit() - 0.5, static_cast<int>(random.below(20)))));
  return entries;
}

inline Buffer part_of(BufferPool& buffers, const Entries& entries,
                      const sparse::BlockRun& run = kRun) {
  return sparse::write_part(buffers, kernels::cpu_kernels(), run, entries.indices,
                            reinterpret_cast<const std::byte*>(entries.values.data()),
                            sizeof(float));
}

inline std::map<std::uint64_t, float> entries_of(const Buffer& part,
                                                 const sparse::BlockRun& run = kRun) {
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  std::map<std::uint64_t, float> entries;
  std::optional<sparse::PartView> view =
      sparse::PartView::read(kernels, part.bytes(), run, sizeof(float));
  if (!view) return entries;
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  for (; !view->at_end(); view->next()) {
    const std::uint16_t* const positions = view->positions(kernels, scratch.data());
    for (std::size_t i = 0; i < view->block_entries(); ++i) {
      float value = 0;
      std::memcpy(&value, view->block_values() + i * sizeof value, sizeof value);
      entries[run.base_of(view->block()) + positions[i]] = value;
    }
  }
  return entries;
}

}  // namespace sparcl::aggregate::test
