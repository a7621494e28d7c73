#pragma once
// Removes versions that all readers have acknowledged from a folder of versions weight_vNNNNNN.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/base/status.hpp"

namespace sparcl::tool {

struct RemovedVersions {
  std::uint64_t versions = 0, bytes = 0;
};

// What killed processes have left of removals: hidden folders.
void remove_hidden_versions(const std::string& folder);

// For one thread.
class AcknowledgedRemoval {
 public:
  // readers: names without a fault (reader_name_fault).
  AcknowledgedRemoval(std::string folder, std::vector<std::string> readers)
      : folder_(std::move(folder)), readers_(std::move(readers)) {}

  // Finds the versions that are there, and makes the folder of acknowledgements.
  Status open();
  // A version was written.
  void add(std::uint64_t version, bool is_complete) { versions_[version] = is_complete; }

  // Removes the versions before the newest complete one that every reader has acknowledged, by its
  // number or a later one. If an acknowledgement is missing, damaged or above the newest version,
  // nothing is removed, and a message names the reader. Links and other folders stay.
  RemovedVersions remove(double now);

 private:
  Result<std::uint64_t> acknowledged_by(const std::string& reader);
  std::optional<std::uint64_t> acknowledged_by_all(bool tells, double now);
  std::optional<std::uint64_t> newest_complete(std::uint64_t up_to) const;
  Result<bool> hide(std::uint64_t version);
  std::vector<std::uint64_t> hide_before(std::uint64_t first_kept, double now);
  bool is_complete_still(std::uint64_t version) const;
  void warn(const std::string& key, const Status& why, double now);

  std::string folder_;
  std::vector<std::string> readers_;
  std::map<std::uint64_t, bool> versions_;          // whether each is complete
  std::map<std::string, std::uint64_t> too_large_;  // numbers that no version had, by reader
  RepeatedMessages troubles_;
};

}  // namespace sparcl::tool
