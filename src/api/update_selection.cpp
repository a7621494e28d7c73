#include "src/api/update_selection.hpp"

#include <fmt/format.h>

#include "src/api/error.hpp"

namespace sparcl::api {
namespace {

Status check_values(const sparclUpdateOptions_t& options) {
  if (options.values < sparclValuesExact || options.values > sparclValuesFloat8)
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.values is {}: it must be one of sparclValues...", options.values));
  if (options.rounding != sparclRoundNearest && options.rounding != sparclRoundStochastic)
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.rounding is {}: it must be one of sparclRound...", options.rounding));
  return Status();
}

Status check_selection(const sparclUpdateOptions_t& options) {
  switch (options.select) {
    case sparclSelectAll:
    case sparclSelectTopK:
    case sparclSelectBytes:
      return Status();
    case sparclSelectThreshold:
      if (options.threshold >= 0) return Status();
      return Status(
          Code::kInvalidArgument,
          fmt::format("options.threshold is {}: it must be 0 or more", options.threshold));
    case sparclSelectGrid: {
      const DataTypeInfo* grid = find_data_type(options.grid);
      if (grid != nullptr && (grid->is_float || grid->type == DataType::kInt8)) return Status();
      return Status(Code::kInvalidArgument,
                    fmt::format("options.grid is {}: it must be a float type or sparclInt8",
                                static_cast<int>(options.grid)));
    }
    default:
      return Status(
          Code::kInvalidArgument,
          fmt::format("options.select is {}: it must be one of sparclSelect...", options.select));
  }
}

Result<std::unique_ptr<codec::ChangeRule>> cut_rule(const Result<codec::ChangeCut>& cut) {
  if (!cut.ok()) return cut.status();
  return std::unique_ptr<codec::ChangeRule>(std::make_unique<codec::CutRule>(*cut));
}

std::unique_ptr<codec::ChangeRule> grid_rule(DataType grid, const codec::EncodeInput& input) {
  if (info(grid).is_float) return std::make_unique<codec::GridRule>(grid);
  return std::make_unique<codec::GridRule>(grid, codec::grid_steps(input.map, input.base, grid));
}

}  // namespace

Result<sparclUpdateOptions_t> read_options(const sparclUpdateOptions_t* given) {
  sparclUpdateOptions_t options = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "options", options));
  if (options.reserved != 0)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.reserved = {}: must be 0", options.reserved));
  SPARCL_RETURN_IF_ERROR(check_selection(options));
  SPARCL_RETURN_IF_ERROR(check_values(options));
  return options;
}

codec::ValueCoding value_coding(const sparclUpdateOptions_t& options) {
  return {static_cast<codec::Values>(options.values),
          static_cast<codec::Rounding>(options.rounding), options.seed};
}

Result<std::unique_ptr<codec::ChangeRule>> make_rule(const sparclUpdateOptions_t& options,
                                                     const codec::EncodeInput& input) {
  switch (options.select) {
    case sparclSelectThreshold:
      return std::unique_ptr<codec::ChangeRule>(
          std::make_unique<codec::ThresholdRule>(options.threshold));
    case sparclSelectTopK:
      return cut_rule(codec::cut_to_count(input, options.count));
    case sparclSelectGrid:
      return grid_rule(static_cast<DataType>(options.grid), input);
    case sparclSelectBytes:
      return cut_rule(codec::cut_to_bytes(input, options.bytes));
    default:
      return std::unique_ptr<codec::ChangeRule>();
  }
}

}  // namespace sparcl::api
