#pragma once
// Which changes a delta carries, and how exactly: the options of `sparcl diff` as the codec's
// rules.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/change_cut.hpp"
#include "src/model/schema.hpp"

namespace sparcl::model {

struct ChangeSelection {
  std::optional<double> threshold;
  std::optional<std::uint64_t> largest;
  std::optional<std::uint64_t> budget_bytes;
  std::string grid;               // a safetensors type: "BF16", "F8_E4M3", "I8"; empty: none
  std::vector<std::string> only;  // globs of tensor names; empty: all
  codec::ValueCoding values;

  bool selects_all() const {
    return !threshold && !largest && !budget_bytes && grid.empty() && only.empty();
  }
  bool is_exact() const { return selects_all() && !values.is_lossy(); }
};

// nullptr: changes cannot be rounded to a type of this name.
const DataTypeInfo* find_grid(const std::string& safetensors_type);

// Owns the rules that it is made of.
class SelectionRule {
 public:
  // input.options has everything but the rule, the values' coding with it. May read both states,
  // and encode.
  static Result<SelectionRule> make(const ChangeSelection& selection, const Schema& schema,
                                    const codec::EncodeInput& input);

  // nullptr: all changes.
  const codec::ChangeRule* get() const { return every_.get(); }

 private:
  void add(std::unique_ptr<codec::ChangeRule> rule);

  std::vector<std::unique_ptr<codec::ChangeRule>> rules_;
  std::unique_ptr<codec::ChangeRule> every_;
};

}  // namespace sparcl::model
