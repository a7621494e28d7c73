#include "src/model/files/change_selection.hpp"

#include <fmt/format.h>
#include <fnmatch.h>
#include <locale.h>

#include "src/codec/array_source.hpp"
#include "src/codec/lossy_values.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

// Globs match bytes, whatever the locale of the caller's program.
class BytesLocale {
 public:
  BytesLocale() {
    static const locale_t bytes = ::newlocale(LC_ALL_MASK, "C", nullptr);
    before_ = ::uselocale(bytes);
  }
  BytesLocale(const BytesLocale&) = delete;
  BytesLocale& operator=(const BytesLocale&) = delete;
  ~BytesLocale() { ::uselocale(before_); }

 private:
  locale_t before_;
};

Result<std::vector<bool>> matching_tensors(const std::vector<std::string>& globs,
                                           const Schema& schema) {
  const BytesLocale locale;
  std::vector<bool> matches(schema.size());
  for (const std::string& glob : globs) {
    bool any = false;
    for (std::size_t i = 0; i < schema.size(); ++i) {
      if (fnmatch(glob.c_str(), schema[i].name.c_str(), 0) != 0) continue;
      matches[i] = any = true;
    }
    if (!any)
      return Status(
          Code::kInvalidArgument,
          fmt::format("options.only '{}' names no tensor; `sparcl inspect` lists them", glob));
  }
  return matches;
}

Status check_bases(const codec::EncodeInput& input, const Schema& schema) {
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const auto* const source = input.options.base_source;
    const bool has_base = input.base[i] != nullptr ||
                          (source != nullptr && source->has(static_cast<std::uint32_t>(i)));
    if (has_base || input.map.arrays()[i].count == 0) continue;
    return Status(
        Code::kInvalidArgument,
        fmt::format(
            "tensor '{}' has no base of its type and size, so that it goes whole: make a delta "
            "without options.only and options.selection first",
            schema[i].name));
  }
  return Status();
}

// The elements of opaque types are no numbers: none of them is larger than another.
Status check_sizes(const ChangeSelection& selection, const std::vector<bool>& chosen,
                   const Schema& schema) {
  if (!selection.threshold && !selection.largest && !selection.budget_bytes && !selection.grid)
    return {};
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (!schema[i].opaque || !chosen[i] || schema[i].opaque->bytes == 0) continue;
    return Status(Code::kInvalidArgument,
                  fmt::format("tensor {} is {}, whose changes have no sizes: choose other tensors "
                              "by options.only, or leave out options.selection->select",
                              in_quotes(schema[i].name), describe_kind(schema[i])));
  }
  return {};
}

}  // namespace

void SelectionRule::add(std::unique_ptr<codec::ChangeRule> rule) {
  rules_.push_back(std::move(rule));
  std::vector<const codec::ChangeRule*> all;
  for (const auto& each : rules_) all.push_back(each.get());
  every_ = std::make_unique<codec::EveryRule>(std::move(all));
}

Result<SelectionRule> SelectionRule::make(const ChangeSelection& selection, const Schema& schema,
                                          const codec::EncodeInput& input) {
  SelectionRule made;
  if (selection.is_exact()) return made;
  SPARCL_RETURN_IF_ERROR(check_bases(input, schema));
  SPARCL_RETURN_IF_ERROR(
      codec::check_values(selection.values, input.map).with_prefix("options.selection->values: "));
  if (selection.selects_all()) return made;
  std::vector<bool> chosen(schema.size(), true);
  if (!selection.only.empty()) {
    SPARCL_ASSIGN_OR_RETURN(std::vector<bool> arrays, matching_tensors(selection.only, schema));
    chosen = arrays;
    made.add(std::make_unique<codec::SubsetRule>(std::move(arrays)));
  }
  SPARCL_RETURN_IF_ERROR(check_sizes(selection, chosen, schema));
  if (selection.threshold) made.add(std::make_unique<codec::ThresholdRule>(*selection.threshold));
  if (selection.grid) {
    std::vector<double> steps;
    const codec::ArrayInput base{{input.base.begin(), input.base.end()}, input.options.base_source};
    if (!info(*selection.grid).is_float)
      steps = codec::grid_steps(input.map, base, *selection.grid);
    made.add(std::make_unique<codec::GridRule>(*selection.grid, std::move(steps)));
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

}  // namespace sparcl::model
