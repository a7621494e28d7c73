#include "tools/sparcl/selection_options.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "tools/number_checks.hpp"

namespace sparcl::tool {

void add_selection_options(CLI::App& app, model::ChangeSelection& selection) {
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
    return model::find_grid(name) != nullptr
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

}  // namespace sparcl::tool
