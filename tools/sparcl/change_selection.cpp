#include "tools/sparcl/change_selection.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "src/codec/array_source.hpp"
#include "src/codec/lossy_values.hpp"
#include "src/model/text.hpp"
#include "tools/number_checks.hpp"

namespace sparcl::tool {
namespace {

Result<std::vector<bool>> matching(const std::vector<std::string>& globs,
                                   const model::Schema& schema) {
  std::vector<bool> matches(schema.size());
  for (const std::string& glob : globs) {
    bool any = false;
    for (std::size_t i = 0; i < schema.size(); ++i) {
      if (fnmatch(glob.c_str(), schema[i].name.c_str(), 0) != 0) continue;
      matches[i] = any = true;
    }
    if (!any)
      return Status(Code::kInvalidArgument,
                    fmt::format("--only '{}' names no tensor; `sparcl inspect` lists them", glob));
  }
  return matches;
}

const DataTypeInfo* find_grid(const std::string& name) {
  const DataTypeInfo* grid = find_safetensors_type(name);
  return grid != nullptr && (grid->is_float || grid->type == DataType::kInt8) ? grid : nullptr;
}

Status check_base(const codec::EncodeInput& input, const model::Schema& schema) {
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const auto* const source = input.options.base_source;
    const bool has_base = input.base[i] != nullptr ||
                          (source != nullptr && source->has(static_cast<std::uint32_t>(i)));
    if (has_base || input.map.arrays()[i].count == 0) continue;
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "tensor '{}' has no base of its type and size, so that it goes whole: make a delta "
            "without --threshold, --largest, --budget, --grid, --only and --values first",
            schema[i].name));
  }
  return Status();
}

// The elements of opaque types are no numbers: none of them is larger than another.
Status check_types(const ChangeSelection& selection, const std::vector<bool>& chosen,
                   const model::Schema& schema) {
  if (!selection.threshold && !selection.largest && !selection.budget_bytes &&
      selection.grid.empty())
    return {};
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (!schema[i].opaque || !chosen[i] || schema[i].opaque->bytes == 0) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("tensor {} is {}, whose changes have no sizes: choose other tensors "
                              "by --only, or leave out --threshold, --largest, --budget and --grid",
                              model::in_quotes(schema[i].name), describe_kind(schema[i])));
  }
  return {};
}

}  // namespace

void add_selection_options(CLI::App& app, ChangeSelection& selection) {
  const std::string group =
      "Which changes (what is left out comes with a later delta, made from what `apply` wrote)";
  app.add_option("--only", selection.only,
                 "of tensors whose names match this glob (may be given several times)")
      ->type_name("GLOB")
      ->group(group);
  const auto is_threshold = [](const std::string& text) {
    double value = 0;
    const bool is_number =
        CLI::detail::lexical_cast(text, value) && value >= 0 && std::isfinite(value);
    return is_number ? std::string() : "'" + text + "' is no finite number from 0 on";
  };
  auto* threshold =
      app.add_option("--threshold", selection.threshold, "larger than this: |new - old|")
          ->check(CLI::Validator(is_threshold, "", "threshold"))
          ->group(group);
  auto* largest =
      app.add_option("--largest", selection.largest, "so many, the largest of the whole model")
          ->transform(is_unsigned())
          ->check(CLI::Range(std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max(), "COUNT")
                      .description(""))
          ->group(group);
  auto* budget =
      app.add_option("--budget", selection.budget_bytes,
                     "the largest, as many as fit a delta of this size (1000000, 10MB ...)")
          ->transform(CLI::AsSizeValue(true))
          ->transform(is_unsigned())
          ->type_name("BYTES")
          ->group(group);
  const auto is_grid = [](const std::string& name) {
    return find_grid(name) != nullptr
               ? std::string()
               : "'" + name + "' is none of BF16, F16, F32, F64, F8_E4M3, F8_E5M2, I8";
  };
  auto* grid = app.add_option("--grid", selection.grid, "that show after rounding to this type")
                   ->check(CLI::Validator(is_grid, "TYPE", "grid"))
                   ->group(group);
  static const std::map<std::string, codec::Values> kValues{{"exact", codec::Values::kExact},
                                                            {"int8", codec::Values::kInt8},
                                                            {"fp8", codec::Values::kFloat8}};
  static const std::map<std::string, codec::Rounding> kRoundings{
      {"nearest", codec::Rounding::kNearest}, {"stochastic", codec::Rounding::kStochastic}};
  auto* values = app.add_option("--values", selection.values.values,
                                "how changes of floats of 16 bits and more travel: exact, or as "
                                "codes of 8 bits with a scale for 65,536 elements")
                     ->transform(CLI::CheckedTransformer(kValues).description(""))
                     ->type_name("exact|int8|fp8")
                     ->group(group);
  auto* rounding = app.add_option("--rounding", selection.values.rounding,
                                  "of the codes; stochastic: right on the average")
                       ->transform(CLI::CheckedTransformer(kRoundings).description(""))
                       ->type_name("nearest|stochastic")
                       ->needs(values)
                       ->group(group);
  app.add_option("--seed", selection.values.seed, "of --rounding stochastic")
      ->transform(is_unsigned())
      ->needs(rounding)
      ->group(group);
  for (auto* option : {threshold, largest, budget, grid}) {
    for (auto* other : {threshold, largest, budget, grid}) {
      if (option != other) option->excludes(other);
    }
  }
}

void SelectionRule::add(std::unique_ptr<codec::ChangeRule> rule) {
  rules_.push_back(std::move(rule));
  std::vector<const codec::ChangeRule*> all;
  for (const auto& each : rules_) all.push_back(each.get());
  every_ = std::make_unique<codec::EveryRule>(std::move(all));
}

Result<SelectionRule> SelectionRule::make(const ChangeSelection& selection,
                                          const model::Schema& schema,
                                          const codec::EncodeInput& input) {
  SelectionRule made;
  if (selection.is_exact()) return made;
  SPARCL_RETURN_IF_ERROR(check_base(input, schema));
  SPARCL_RETURN_IF_ERROR(
      codec::check_values(selection.values, input.map).with_prefix("--values: "));
  if (selection.selects_all()) return made;
  std::vector<bool> chosen(schema.size(), true);
  if (!selection.only.empty()) {
    SPARCL_ASSIGN_OR_RETURN(std::vector<bool> arrays, matching(selection.only, schema));
    chosen = arrays;
    made.add(std::make_unique<codec::SubsetRule>(std::move(arrays)));
  }
  SPARCL_RETURN_IF_ERROR(check_types(selection, chosen, schema));
  if (selection.threshold) made.add(std::make_unique<codec::ThresholdRule>(*selection.threshold));
  if (const DataTypeInfo* grid = find_grid(selection.grid)) {
    std::vector<double> steps;
    const codec::ArrayInput base{{input.base.begin(), input.base.end()}, input.options.base_source};
    if (!grid->is_float) steps = codec::grid_steps(input.map, base, grid->type);
    made.add(std::make_unique<codec::GridRule>(grid->type, std::move(steps)));
  }
  if (selection.largest || selection.budget_bytes) {
    codec::EncodeOptions options = input.options;
    options.rule = made.get();
    const codec::EncodeInput ruled{input.map, input.base, input.target, options, input.kernels};
    SPARCL_ASSIGN_OR_RETURN(const codec::ChangeCut cut,
                            selection.largest
                                ? codec::cut_to_count(ruled, *selection.largest)
                                : codec::cut_to_bytes(ruled, *selection.budget_bytes));
    made.add(std::make_unique<codec::CutRule>(cut));
  }
  return made;
}

}  // namespace sparcl::tool
