#include "src/net/network_interfaces.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

#include "src/base/error_text.hpp"
#include "src/base/folder_list.hpp"
#include "src/base/settings.hpp"

namespace sparcl::net {
namespace {

// Names that probably lead only to this host's containers: tried last.
constexpr std::array<std::string_view, 6> kInnerNames{"docker", "br-", "virbr",
                                                      "veth",   "cni", "lxc"};

bool usable(const InterfaceAddress& entry) {
  return entry.address.family == NetAddress::Family::kIpv4 || !is_link_local(entry.address);
}

bool reaches_far(const InterfaceAddress& entry) {
  const auto inner = [&](std::string_view name) { return entry.name.starts_with(name); };
  return std::none_of(kInnerNames.begin(), kInnerNames.end(), inner) &&
         !is_link_local(entry.address);
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (const std::string_view part = list.substr(0, comma); !part.empty()) parts.push_back(part);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return parts;
}

// A name that occurs twice in the list gives no address twice.
std::vector<InterfaceAddress> named(std::span<const std::string_view> names,
                                    std::span<const InterfaceAddress> present) {
  std::vector<InterfaceAddress> found;
  for (const std::string_view name : names) {
    for (const InterfaceAddress& entry : present) {
      const auto same = [&](const InterfaceAddress& other) {
        return other.address == entry.address;
      };
      if (usable(entry) && entry.name.starts_with(name) &&
          std::none_of(found.begin(), found.end(), same))
        found.push_back(entry);
    }
  }
  return found;
}

std::vector<InterfaceAddress> all_but(std::span<const std::string_view> names,
                                      std::span<const InterfaceAddress> present) {
  std::vector<InterfaceAddress> found;
  for (const InterfaceAddress& entry : present) {
    const auto excluded = [&](std::string_view name) { return entry.name.starts_with(name); };
    if (usable(entry) && !entry.loopback && std::none_of(names.begin(), names.end(), excluded))
      found.push_back(entry);
  }
  std::stable_partition(found.begin(), found.end(), reaches_far);
  return found;
}

Status nothing_left(std::string_view wanted, std::span<const InterfaceAddress> present) {
  std::vector<std::string> names;
  for (const InterfaceAddress& entry : present) {
    if (std::find(names.begin(), names.end(), entry.name) == names.end())
      names.push_back(entry.name);
  }
  return Status(Code::kInvalidArgument,
                fmt::format("SPARCL_INTERFACE={}: no interface that is up has such a name and an "
                            "address; host {} has {}",
                            wanted, own_host_name(),
                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

Result<std::vector<InterfaceAddress>> choose_interfaces(std::string_view wanted,
                                                        std::span<const InterfaceAddress> present) {
  std::vector<InterfaceAddress> chosen;
  if (wanted == "auto") {
    chosen = all_but({}, present);
    if (chosen.empty())
      std::copy_if(present.begin(), present.end(), std::back_inserter(chosen), usable);
  } else if (wanted.starts_with('^')) {
    chosen = all_but(split(wanted.substr(1)), present);
  } else {
    chosen = named(split(wanted), present);
  }
  if (chosen.empty()) return nothing_left(wanted, present);
  return chosen;
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return Status(Code::kSystemError, fmt::format("getifaddrs(): {}", error_text(errno)));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<InterfaceAddress> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_RUNNING) == 0) continue;
    if (std::optional<NetAddress> address = from_socket_address(entry->ifa_addr)) {
      address->port = 0;
      found.push_back({entry->ifa_name, *address, (entry->ifa_flags & IFF_LOOPBACK) != 0});
    }
  }
  return found;
}

Result<std::vector<NetAddress>> choose_addresses(std::string_view wanted,
                                                 std::span<const InterfaceAddress> present) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> chosen,
                          choose_interfaces(wanted, present));
  std::vector<NetAddress> addresses;
  for (const InterfaceAddress& entry : chosen) addresses.push_back(entry.address);
  return addresses;
}

Result<std::vector<NetAddress>> own_addresses() {
  SPARCL_ASSIGN_OR_RETURN(std::vector<InterfaceAddress> present, list_interfaces());
  return choose_addresses(setting("INTERFACE").text, present);
}

Result<std::vector<std::string>> chosen_interfaces() {
  const std::string wanted = setting("INTERFACE").text;
  std::vector<std::string> names;
  if (wanted == "auto") return names;
  SPARCL_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> present, list_interfaces());
  SPARCL_ASSIGN_OR_RETURN(const std::vector<InterfaceAddress> chosen,
                          choose_interfaces(wanted, present));
  for (const InterfaceAddress& entry : chosen) {
    if (std::find(names.begin(), names.end(), entry.name) == names.end())
      names.push_back(entry.name);
  }
  return names;
}

std::vector<std::string> rdma_devices_of(const std::string& interface) {
  const std::string folder = "/sys/class/net/" + interface;
  unsigned port = 0;  // from 0 here, from 1 in UCX
  std::ifstream(folder + "/dev_port") >> port;
  std::vector<std::string> devices;
  if (const Result<std::vector<std::string>> names = names_in_folder(folder + "/device/infiniband");
      names.ok()) {
    for (const std::string& name : *names) devices.push_back(fmt::format("{}:{}", name, port + 1));
  }
  return devices;
}

std::string own_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "?";
  return name.data();
}

}  // namespace sparcl::net
