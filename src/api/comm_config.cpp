#include "src/api/comm_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/aggregate/aggregation.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/table/collective_table.hpp"
#include "src/api/call_options.hpp"
#include "src/api/comm.hpp"
#include "src/api/error.hpp"
#include "src/base/flight/flight_recorder.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/comm/start/link_measurement.hpp"

namespace sparcl::api {
namespace {

Result<double> timeout_of(const sparclConfig_t& config) {
  if (config.timeout_s > 0 && config.timeout_s <= kMaxSeconds) return config.timeout_s;
  if (config.timeout_s != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("config.timeout_s = {:g}: expected seconds, at most {:g} (three "
                              "years), or 0 for SPARCL_TIMEOUT_S",
                              config.timeout_s, kMaxSeconds));
  }
  return setting_number("TIMEOUT_S");
}

Result<codec::Verify> verify_setting(const sparclConfig_t& config) {
  SPARCL_RETURN_IF_ERROR(check_verify("config.verify", config.verify));
  if (config.verify != sparclVerifyDefault) return verify_of(config.verify);
  SPARCL_ASSIGN_OR_RETURN(const std::string choice, setting_choice("VERIFY"));
  return choice == "off"    ? codec::Verify::kOff
         : choice == "full" ? codec::Verify::kFull
                            : codec::Verify::kTouched;
}

Result<Determinism> determinism_setting(const sparclConfig_t& config) {
  SPARCL_RETURN_IF_ERROR(check_determinism("config.determinism", config.determinism));
  if (config.determinism != sparclDeterminismDefault) return determinism_of(config.determinism);
  SPARCL_ASSIGN_OR_RETURN(const std::string choice, setting_choice("DETERMINISM"));
  return choice == "canonical" ? Determinism::kCanonical : Determinism::kRuns;
}

Result<std::uint32_t> fragment_bytes_setting() {
  SPARCL_ASSIGN_OR_RETURN(const std::string choice, setting_choice("FRAGMENT_BYTES"));
  if (choice == "auto") return std::uint32_t{0};
  const Result<double> bytes = setting_number("FRAGMENT_BYTES");
  return bytes.ok() ? Result<std::uint32_t>(static_cast<std::uint32_t>(*bytes)) : bytes.status();
}

Result<unsigned> threads_of(const sparclConfig_t& config) {
  if (config.threads < 0 || config.threads > kMaxThreads) {
    return Status(Code::kInvalidArgument, fmt::format("config.threads = {}: expected 0 to {}",
                                                      config.threads, kMaxThreads));
  }
  if (config.threads > 0) return static_cast<unsigned>(config.threads);
  const Result<unsigned> threads = threads_setting();
  return threads.ok() && *threads == 0 ? Result<unsigned>(1u) : threads;
}

// auto: on links on which the bytes that classes save take longer than what both ends' GPUs read
// for them. An H200 that was both ends gave 20 to 23 Gbit/s for 1 % of bf16 (bench_cuda's row of
// classes).
Result<bool> device_classes_setting(double link_gbit) {
  constexpr double kSlowLinkGbit = 16;
  SPARCL_ASSIGN_OR_RETURN(const std::string choice, setting_choice("DEVICE_CLASSES"));
  return choice == "on" || (choice == "auto" && link_gbit > 0 && link_gbit <= kSlowLinkGbit);
}

}  // namespace

Result<Configuration> configure(const sparclConfig_t* given) {
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "config", config));
  SPARCL_RETURN_IF_ERROR(flight::check_flight_settings());
  Configuration made;
  comm::CommContext& context = made.context;
  if (const Result<std::string> level = setting_choice("DEBUG"); !level.ok()) return level.status();
  SPARCL_ASSIGN_OR_RETURN(const double timeout, timeout_of(config));
  made.timeout_s = timeout;
  SPARCL_ASSIGN_OR_RETURN(const unsigned threads, threads_of(config));
  made.threads = threads;
  SPARCL_ASSIGN_OR_RETURN(const codec::Verify verify, verify_setting(config));
  SPARCL_ASSIGN_OR_RETURN(const std::string algorithm,
                          collectives::chosen_algorithm(collectives::broadcast::kFanoutAlgorithms));
  SPARCL_ASSIGN_OR_RETURN(const std::string all_reduce,
                          collectives::chosen_algorithm(collectives::dense::kDenseAlgorithms));
  SPARCL_ASSIGN_OR_RETURN(
      const std::string sparse_sum,
      collectives::chosen_algorithm(collectives::sparse_sum::kSparseSumAlgorithms));
  SPARCL_ASSIGN_OR_RETURN(
      const std::string aggregate,
      collectives::chosen_algorithm(collectives::aggregate::kAggregateAlgorithms));
  SPARCL_ASSIGN_OR_RETURN(const Determinism determinism, determinism_setting(config));
  SPARCL_ASSIGN_OR_RETURN(const std::uint32_t fragment, fragment_bytes_setting());
  SPARCL_ASSIGN_OR_RETURN(const double link_gbit, setting_number("LINK_GBIT"));
  SPARCL_ASSIGN_OR_RETURN(const double scratch, setting_number("SCRATCH_MIB"));
  SPARCL_ASSIGN_OR_RETURN(const std::string coding, setting_choice("ENTRY_CODING"));
  SPARCL_ASSIGN_OR_RETURN(const std::string bodies, setting_choice("KERNELS"));
  if (const Result<std::string> window = setting_choice("NODE_WINDOW"); !window.ok())
    return window.status();
  if (const std::string cost = setting("LINK_COST").text; cost != "measure" && cost != "guess")
    SPARCL_RETURN_IF_ERROR(comm::read_link_cost(cost).status());
  SPARCL_ASSIGN_OR_RETURN(const std::string commit, setting_choice("COMMIT"));
  made.early_blocking = commit != "staged";
  made.early_nonblocking = commit == "early";
  SPARCL_ASSIGN_OR_RETURN(const std::string device_kernels, setting_choice("DEVICE_KERNELS"));
  made.uses_device_kernels = device_kernels == "on";
  SPARCL_ASSIGN_OR_RETURN(const std::string device_snapshot, setting_choice("DEVICE_SNAPSHOT"));
  made.keeps_device_snapshot = device_snapshot == "on";
  SPARCL_ASSIGN_OR_RETURN(const bool device_classes, device_classes_setting(link_gbit));
  context.device_classes = device_classes;
  SPARCL_ASSIGN_OR_RETURN(context.place, comm::own_place());
  context.verify = verify;
  context.broadcast_algorithm = algorithm;
  context.all_reduce_algorithm = all_reduce;
  context.sparse_sum_algorithm = sparse_sum;
  context.aggregate_algorithm = aggregate;
  context.determinism = determinism;
  context.fragment_bytes = fragment;
  context.max_scratch_mib = static_cast<std::uint32_t>(std::min<double>(scratch, UINT32_MAX));
  context.link_gbit = link_gbit;
  context.entry_coding = coding == "on"    ? comm::EntryCoding::kOn
                         : coding == "off" ? comm::EntryCoding::kOff
                                           : comm::EntryCoding::kAuto;
  context.kernels = bodies == "ref" ? &kernels::reference_kernels() : &kernels::cpu_kernels();
  return made;
}

Result<double> timeout_of(const sparclConfig_t* given) {
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  SPARCL_RETURN_IF_ERROR(read_sized(given, "config", config));
  return timeout_of(config);
}

Status check_config(const sparclConfig_t* config) {
  const Result<Configuration> configuration = configure(config);
  return configuration.ok() ? Status() : configuration.status();
}

}  // namespace sparcl::api
