#include "src/api/update_selection.hpp"

#include <fmt/format.h>

#include "collectives/broadcast/fanout.hpp"
#include "src/api/call_options.hpp"
#include "src/api/error.hpp"

namespace sparcl::api {
namespace {

Status check_values(const sparclUpdateOptions_t& options) {
  SPARCL_RETURN_IF_ERROR(check_enum("options.values", number_of(options.values), sparclValuesFloat8,
                                    "sparclValues_t"));
  return check_enum("options.rounding", number_of(options.rounding), sparclRoundStochastic,
                    "sparclRounding_t");
}

Status check_selection(const sparclUpdateOptions_t& options) {
  switch (number_of(options.select)) {
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
      const int type = number_of(options.grid);
      const DataTypeInfo* grid = find_data_type(type);
      if (grid != nullptr && (grid->is_float || grid->type == DataType::kInt8)) return Status();
      return Status(Code::kInvalidArgument,
                    fmt::format("options.grid is {}: it must be a float type or sparclInt8", type));
    }
    default:
      return check_enum("options.select", number_of(options.select), sparclSelectBytes,
                        "sparclSelect_t");
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
  SPARCL_RETURN_IF_ERROR(
      check_algorithm(options.algorithm, collectives::broadcast::kFanoutAlgorithms));
  SPARCL_RETURN_IF_ERROR(check_toggle("options.adopt", options.adopt));
  SPARCL_RETURN_IF_ERROR(check_verify("options.verify", options.verify));
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
