#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/table/collective_table.hpp"
#include "kernels/kernel_set.hpp"
#include "src/base/finding.hpp"
#include "src/base/settings.hpp"
#include "src/base/worker_pool.hpp"
#include "src/codec/work_memory.hpp"
#include "src/comm/start/link_measurement.hpp"
#include "src/gpu/device_list.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/net/heartbeat/heartbeat.hpp"
#include "src/net/network_interfaces.hpp"
#include "src/transport/nccl/nccl_library.hpp"
#include "src/transport/ucx_needs.hpp"
#include "src/transport/ucx_plugin.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/ucx_trial.hpp"

namespace sparcl::tool {
namespace {

struct Part {  // an implementation of a contract
  std::string name;
  bool usable;
  std::string reason;
};

// The checks come first: they name what UCX lacks; UCX itself does not.
Part ucx_transport() {
  if constexpr (SPARCL_WITH_UCX == 0)
    return {"ucx", false, "left out of this build: SPARCL_UCX=OFF, or no UCX was found"};
  if (const Status bad = status_of(transport::check_ucx_needs(1)); !bad.ok())
    return {"ucx", false, bad.message()};
  const Result<const transport::UcxPlugin*> plugin = transport::load_ucx_plugin();
  if (!plugin.ok()) return {"ucx", false, plugin.status().message()};
  if (const Status bad = try_out_ucx(**plugin); !bad.ok()) return {"ucx", false, bad.message()};
  return {"ucx", true,
          fmt::format("UCX {}: chosen where ranks meet by a unique id (sparclCommInitRank), and "
                      "for MPI's ranks by SPARCL_TRANSPORT=ucx. UCX_TLS chooses the transports "
                      "that UCX may use, and SPARCL_DEBUG=debug logs those in use",
                      (*plugin)->version())};
}

constexpr bool kWithCuda = SPARCL_WITH_CUDA != 0;
constexpr const char* kWithoutCuda =
    "left out of this build: SPARCL_CUDA=OFF, or no nvcc was found";

// Empty if kernels run on at least one of them.
std::string why_no_kernels(const gpu::DeviceList& gpus) {
  constexpr int kCudaMajor = SPARCL_CUDA_MAJOR,
                kMinCapability = 8;  // of the architectures in cmake/SparclDependencies.cmake
  if (!kWithCuda) return kWithoutCuda;
  if (!gpus.why_none.empty()) return gpus.why_none;
  if (gpus.driver_version / 1000 < kCudaMajor) {
    return fmt::format("the driver knows CUDA {}, this build's kernels need {}.0 or later",
                       gpu::driver_version_text(gpus.driver_version), kCudaMajor);
  }
  const auto can_run = [](const gpu::DeviceEntry& gpu) {
    return gpu.capability_major >= kMinCapability;
  };
  if (std::ranges::any_of(gpus.devices, can_run)) return {};
  return fmt::format("{} has compute capability {}.{}, this build's kernels need {}.0 or later",
                     gpus.devices[0].name, gpus.devices[0].capability_major,
                     gpus.devices[0].capability_minor, kMinCapability);
}

// All requirements must be met: returns the first that is not, with NCCL's version if it has one.
Part nccl_engine(const gpu::DeviceList& gpus) {
  const Result<const transport::NcclLibrary*> nccl = transport::load_nccl();
  if (!nccl.ok()) return {"nccl", false, nccl.status().message()};
  const std::string found =
      fmt::format("NCCL {} ({})", transport::nccl_version_text((*nccl)->version), (*nccl)->path);
  if (!kWithCuda)
    return {"nccl", false, fmt::format("{}, but CUDA's kernels are {}", found, kWithoutCuda)};
  if (const std::string why = why_no_kernels(gpus); !why.empty())
    return {"nccl", false, fmt::format("{}, but {}", found, why)};
  return {
      "nccl", true,
      found + ": masked sums between GPUs, beside a communicator's transport (sparclCommUseNccl)"};
}

std::vector<Part> transports(const gpu::DeviceList& gpus) {
  constexpr bool kWithMpi = SPARCL_WITH_MPI != 0;
  return {{"loopback", true, "ranks are threads of one process (sparclCommInitLocal)"},
          {"mpi", kWithMpi,
           kWithMpi ? "built for " SPARCL_MPI_NAME ": programs that link libsparcl_mpi use it "
                      "(sparclCommInitMpi); this program needs none"
                    : "left out of this build: SPARCL_MPI=OFF, or no MPI was found"},
          ucx_transport(),
          nccl_engine(gpus)};
}

Part cuda_kernels(const gpu::DeviceList& gpus) {
  if (const std::string why = why_no_kernels(gpus); !why.empty()) return {"cuda", false, why};
  return {"cuda", true,
          "built (sm_80, sm_90 and later): top-k, broadcasts of changes and publishers' diffs on "
          "the device, masks and top-k over NCCL; else staged through host memory"};
}

std::vector<Part> kernel_bodies(const gpu::DeviceList& gpus) {
  const Result<const kernels::KernelSet*> chosen = model::chosen_kernels();
  const auto reason = [&](const kernels::KernelSet& set) {
    if (!chosen.ok())
      return std::string("this machine can run it, but SPARCL_KERNELS has no valid value");
    const bool in_use = std::string_view((*chosen)->name) == set.name;
    return std::string(in_use ? "in use (SPARCL_KERNELS)"
                              : "this machine can run it, another is in use");
  };
  std::vector<Part> parts{
      {kernels::reference_kernels().name, true, reason(kernels::reference_kernels())}};
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels())
    parts.push_back({set.name, true, reason(set)});
  parts.push_back(cuda_kernels(gpus));
  parts.push_back(
      {"kokkos", true,
       "in headers (sparcl/sparcl_kokkos.hpp): a program compiles them with its own Kokkos"});
  return parts;
}

Json parts_json(const std::vector<Part>& parts) {
  Json out = Json::array();
  for (const Part& part : parts)
    out.push_back({{"name", part.name}, {"usable", part.usable}, {"reason", part.reason}});
  return out;
}

std::string parts_text(std::string_view title, const std::vector<Part>& parts) {
  std::string out = fmt::format("\n{}\n", title);
  for (const Part& part : parts)
    out += fmt::format("  {:<14} {:<4} {}\n", part.name, part.usable ? "yes" : "no", part.reason);
  return out;
}

Json checks_json(std::span<const Finding> checks) {
  Json out = Json::array();
  for (const Finding& each : checks)
    out.push_back({{"name", each.name},
                   {"ok", each.ok},
                   {"found", each.found},
                   {"need", each.need},
                   {"cure", each.cure}});
  return out;
}

std::string checks_text(std::span<const Finding> checks) {
  std::string out = "\nlimits of this machine\n";
  for (const Finding& each : checks)
    out += fmt::format("  {:<14} {:<4} {}\n", each.name, each.ok ? "ok" : "NO", text_of(each));
  return out;
}

Json gpus_json(const gpu::DeviceList& gpus) {
  Json devices = Json::array();
  for (const gpu::DeviceEntry& gpu : gpus.devices) {
    devices.push_back(
        {{"name", gpu.name},
         {"memory_bytes", gpu.memory_bytes},
         {"compute_capability", fmt::format("{}.{}", gpu.capability_major, gpu.capability_minor)}});
  }
  const Result<const transport::NcclLibrary*> nccl = transport::load_nccl();
  return {{"driver",
           gpus.driver_version != 0 ? Json(gpu::driver_version_text(gpus.driver_version)) : Json()},
          {"nccl", nccl.ok() ? Json(transport::nccl_version_text((*nccl)->version)) : Json()},
          {"built_with_cuda", kWithCuda},
          {"reason", gpus.why_none},
          {"devices", devices}};
}

std::string gpus_text(const gpu::DeviceList& gpus) {
  const std::string driver =
      gpus.driver_version != 0 ? ", driver of CUDA " + gpu::driver_version_text(gpus.driver_version)
                               : "";
  if (!gpus.why_none.empty()) return fmt::format("\nGPUs{}\n  none: {}\n", driver, gpus.why_none);
  std::string out = fmt::format("\nGPUs{}\n", driver);
  for (std::size_t i = 0; i < gpus.devices.size(); ++i) {
    const gpu::DeviceEntry& gpu = gpus.devices[i];
    out += fmt::format("  {:<3} {}, {} MiB, compute capability {}.{}\n", i, gpu.name,
                       gpu.memory_bytes >> 20, gpu.capability_major, gpu.capability_minor);
  }
  return out;
}

const char* type_name(SettingType type) {
  switch (type) {
    case SettingType::kChoice:
      return "choice";
    case SettingType::kSeconds:
      return "seconds";
    case SettingType::kCount:
      return "count";
    case SettingType::kText:
      return "text";
    case SettingType::kSecret:
      return "secret";
  }
  return "unknown";
}

Json settings_json() {
  Json out = Json::array();
  for (const SettingRow& row : collectives::all_setting_rows()) {
    const SettingValue value = setting(row);
    out.push_back({{"name", row.name},
                   {"environment", fmt::format("SPARCL_{}", row.name)},
                   {"value", shown_value(row)},
                   {"source", value.source},
                   {"valid", check_setting(row).ok()},
                   {"accepts", accepted_values(row)},
                   {"type", type_name(row.type)},
                   {"choices", row.choices},
                   {"default", row.fallback},
                   {"meaning", row.meaning}});
  }
  return out;
}

std::string settings_text() {
  std::string out = "\nsettings (value, source, meaning)\n";
  for (const SettingRow& row : collectives::all_setting_rows()) {
    const SettingValue value = setting(row);
    out += fmt::format("  {:<22} {:<10} {:<12} {}{}\n", fmt::format("SPARCL_{}", row.name),
                       shown_value(row), value.source, row.meaning,
                       row.choices.empty() ? "" : fmt::format(" ({})", row.choices));
    if (!check_setting(row).ok())
      out += fmt::format("  {:<22} INVALID: expected {}\n", "", accepted_values(row));
  }
  return out;
}

// Limits of diff and apply besides the files.
Json threads_json() {
  const Result<unsigned> threads = threads_setting();
  return {{"cores_allowed", allowed_cores()},
          {"threads", threads.ok() ? Json(*threads == 0 ? allowed_cores() : *threads) : Json()},
          {"encode_bytes_a_thread", codec::kEncodeWorkBytes},
          {"apply_bytes_a_thread", codec::kDecodeWorkBytes}};
}

std::string threads_text() {
  return fmt::format(
      "\nthreads\n  {} cores may be used; a thread takes at most {} MB to encode and {} MB to "
      "apply\n",
      allowed_cores(), codec::kEncodeWorkBytes >> 20, codec::kDecodeWorkBytes >> 20);
}

// One error with all settings that prevent a communicator, if there are any.
Status check_all_settings() {
  std::string wrong;
  for (const SettingRow& row : collectives::all_setting_rows()) {
    if (const Status bad = check_setting(row); !bad.ok())
      wrong += (wrong.empty() ? "" : "; ") + bad.message();
  }
  if (!wrong.empty()) return Status(Code::kInvalidArgument, wrong);
  // Settings that must match other settings, the machine or a file.
  const std::string cost = setting("LINK_COST").text;
  const bool is_file = cost != "measure" && cost != "guess";
  for (const Status& bad :
       {net::heartbeat_options({}).status(), threads_setting().status(),
        net::own_addresses().status(), is_file ? comm::read_link_cost(cost).status() : Status()}) {
    if (!bad.ok()) wrong += (wrong.empty() ? "" : "; ") + bad.message();
  }
  return wrong.empty() ? Status() : Status(Code::kInvalidArgument, wrong);
}

Status run_info(Invocation& invocation) {
  const bool as_json = invocation.json;
  const Status settings = check_all_settings();
  const gpu::DeviceList gpus = gpu::list_devices();
  const std::vector<Finding> checks = transport::check_ucx_needs(1);
  const std::vector<Part> all_transports = transports(gpus);
  const std::vector<Part> all_kernels = kernel_bodies(gpus);
  Json json{{"version", SPARCL_VERSION_TEXT},     {"transports", parts_json(all_transports)},
            {"kernels", parts_json(all_kernels)}, {"gpus", gpus_json(gpus)},
            {"threads", threads_json()},          {"settings", settings_json()},
            {"checks", checks_json(checks)}};
  if (!settings.ok()) {
    json.update({{"ok", false},
                 {"error", code_name(settings.code())},
                 {"message", settings.message()},
                 {"exit_code", exit_code(settings.code())}});
  }
  SPARCL_RETURN_IF_ERROR(print(
      as_json, json,
      fmt::format("sparcl {}\n{}{}{}{}{}{}", SPARCL_VERSION_TEXT,
                  parts_text("transports", all_transports), parts_text("kernels", all_kernels),
                  gpus_text(gpus), checks_text(checks), threads_text(), settings_text())));
  invocation.json = false;  // its one line holds the error, too
  return settings;
}

}  // namespace

void add_info(CLI::App&, Invocation& invocation) {
  invocation.run = [&invocation] { return run_info(invocation); };
}

}  // namespace sparcl::tool
