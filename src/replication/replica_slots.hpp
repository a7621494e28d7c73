#pragma once
// Labels of replicas that stay the same when a replica is started anew: its name, its host and its
// slot. The slot is a small number that differs among replicas of one host and name. Metrics use
// these labels.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace sparcl::replication {

struct ReplicaLabel {
  std::string name;  // as its user has named it; "replica" if not
  std::string host;
  std::size_t slot = 0;
};

// The label for the name in a HELLO: "host h1, pid 4711, name actor". Another text is the host.
ReplicaLabel label_of(std::string_view process);

class ReplicaSlots {
 public:
  // The slot of `process` for the session `id`: the one that this process has, else the lowest that
  // is free.
  ReplicaLabel take(const std::string& process, std::uint64_t id);
  void give_back(const ReplicaLabel& label, std::uint64_t id);

 private:
  struct Slot {
    std::string process;
    std::uint64_t id = 0;  // 0: free
  };
  std::map<std::string, std::vector<Slot>> slots_;  // by host and name
};

}  // namespace sparcl::replication
