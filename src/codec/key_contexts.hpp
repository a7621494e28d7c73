#pragma once
// Contexts: ranges of keys whose elements share a table of the entropy coder.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/rans_table.hpp"

namespace sparcl::codec {

// contexts[i] = the number of bounds that are at most keys[i]. Bounds ascend. contexts may be keys.
void find_contexts(std::span<const std::uint8_t> bounds, const std::uint8_t* keys,
                   std::size_t count, std::uint8_t* contexts);

// Chooses the tables that pay for themselves.
class ContextChoice {
 public:
  // Elements by key and symbol; symbols are below 128. Joins neighbouring keys until joining gains
  // nothing and there are at most kRansContexts of them.
  void choose(const std::uint8_t* keys, const std::uint8_t* symbols, std::size_t count);

  // A partial input before choose(): some symbols that are not 0, with their keys, and the keys of
  // some of all `count` elements. The other elements have symbol 0. The result is a lower bound
  // of cost(), except for chance in the sample of keys; tables are not included.
  struct Some {
    const std::uint8_t* keys;
    const std::uint8_t* symbols;
    std::size_t count;
  };
  std::uint64_t min_cost(const Some& others, const Some& key_sample, std::size_t count);

  std::uint64_t cost() const;                // estimated bits, tables included, times 2^8
  std::vector<std::uint8_t> bounds() const;  // the first key of each context but the first
  std::vector<Frequencies> tables() const;

 private:
  static constexpr std::size_t kKeys = 256;
  static constexpr std::size_t kMaxSymbols = 128;
  using Counts = std::array<std::uint32_t, kMaxSymbols>;

  struct Group {
    unsigned first;
    Counts counts;
    std::uint64_t cost;
    std::uint64_t joined_cost;  // with the next group
  };

  void make_groups();
  void join_next(std::size_t group);
  void consider_next(std::size_t group);
  std::uint64_t cost_of(const Counts& counts) const;

  void clear() { by_key_.assign(kKeys, Counts{}); }

  std::vector<Counts> by_key_;
  std::vector<Group> groups_;
  std::size_t symbols_ = 0;  // all are below
};

}  // namespace sparcl::codec
