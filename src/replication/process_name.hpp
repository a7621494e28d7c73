#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <mutex>
#include <set>
#include <string>

#include "src/base/settings.hpp"
#include "src/net/network_interfaces.hpp"

namespace sparcl::replication {

// As peers and users know this process: "host h1, pid 4711".
inline std::string process_name() {
  return fmt::format("host {}, pid {}", net::own_host_name(), ::getpid());
}

// One of its replicas, as long as it is there: "host h1, pid 4711", and beside that one "host h1,
// pid 4711, replica 2". One that comes when another has gone takes its name: it has come back. A
// name of the user's (SPARCL_REPLICA_NAME) comes last.
class ReplicaName {
 public:
  ReplicaName() {
    const std::lock_guard lock(mutex_);
    while (taken_.contains(number_)) ++number_;
    taken_.insert(number_);
  }
  ~ReplicaName() {
    const std::lock_guard lock(mutex_);
    taken_.erase(number_);
  }
  ReplicaName(const ReplicaName&) = delete;
  ReplicaName& operator=(const ReplicaName&) = delete;
  std::string text() const {
    const std::string name = setting("REPLICA_NAME").text;
    return process_name() + (number_ == 1 ? "" : fmt::format(", replica {}", number_)) +
           (name == kUnnamed ? "" : fmt::format(", name {}", name));
  }

 private:
  static constexpr const char* kUnnamed =
      "replica";  // the setting's default: what publishers call one without a name

  static inline std::mutex mutex_;
  static inline std::set<int> taken_;
  int number_ = 1;
};

}  // namespace sparcl::replication
