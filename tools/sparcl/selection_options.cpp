#include "tools/sparcl/selection_options.hpp"

#include <cstdint>
#include <map>
#include <string>

#include "src/base/data_type.hpp"
#include "tools/number_checks.hpp"

namespace sparcl::tool {
namespace {

// nullptr: changes cannot be rounded to a type of this name.
const DataTypeInfo* find_grid(const std::string& name) {
  const DataTypeInfo* grid = find_safetensors_type(name);
  return grid != nullptr && (grid->is_float || grid->type == DataType::kInt8) ? grid : nullptr;
}

}  // namespace

sparclUpdateOptions_t SelectionOptions::as_update_options() const {
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  options.values = static_cast<decltype(options.values)>(values);
  options.rounding = static_cast<decltype(options.rounding)>(rounding);
  options.seed = seed;
  if (threshold) {
    options.select = sparclSelectThreshold;
    options.threshold = *threshold;
  } else if (largest) {
    options.select = sparclSelectTopK;
    options.count = *largest;
  } else if (budget_bytes) {
    options.select = sparclSelectBytes;
    options.bytes = *budget_bytes;
  } else if (const DataTypeInfo* type = find_grid(grid)) {
    options.select = sparclSelectGrid;
    options.grid = static_cast<sparclDataType_t>(type->type);
  }
  return options;
}

void add_selection_options(CLI::App& app, SelectionOptions& selection) {
  const std::string group =
      "Which changes (what is left out comes with a later delta, made from what `apply` wrote)";
  app.add_option("--only", selection.only,
                 "of tensors whose names match this glob (may be given several times)")
      ->type_name("GLOB")
      ->group(group);
  auto* threshold =
      app.add_option("--threshold", selection.threshold, "larger than this: |new - old|")
          ->transform(real_number(0))
          ->group(group);
  auto* largest =
      app.add_option("--largest", selection.largest, "so many, the largest of the whole model")
          ->transform(whole_number(1))
          ->group(group);
  auto* budget =
      app.add_option("--budget", selection.budget_bytes,
                     "the largest, as many as fit a delta of this size (1000000, 10MB ...)")
          ->transform(CLI::AsSizeValue(true))
          ->transform(size_with_unit())
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
  static const std::map<std::string, int> kValues{
      {"exact", sparclValuesExact}, {"int8", sparclValuesInt8}, {"fp8", sparclValuesFloat8}};
  static const std::map<std::string, int> kRoundings{{"nearest", sparclRoundNearest},
                                                     {"stochastic", sparclRoundStochastic}};
  auto* values = app.add_option("--values", selection.values,
                                "how changes of floats of 16 bits and more travel: exact, or as "
                                "codes of 8 bits with a scale for 65,536 elements")
                     ->transform(CLI::CheckedTransformer(kValues).description(""))
                     ->type_name("exact|int8|fp8")
                     ->group(group);
  auto* rounding = app.add_option("--rounding", selection.rounding,
                                  "of the codes; stochastic: right on the average")
                       ->transform(CLI::CheckedTransformer(kRoundings).description(""))
                       ->type_name("nearest|stochastic")
                       ->needs(values)
                       ->group(group);
  app.add_option("--seed", selection.seed, "of --rounding stochastic")
      ->transform(whole_number())
      ->needs(rounding)
      ->group(group);
  for (auto* option : {threshold, largest, budget, grid}) {
    for (auto* other : {threshold, largest, budget, grid}) {
      if (option != other) option->excludes(other);
    }
  }
}

}  // namespace sparcl::tool
