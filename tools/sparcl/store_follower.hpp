#pragma once
// Keeps a checkpoint at the newest version of a store, or brings it to one version.

#include <cstdint>
#include <string>

#include "src/base/status.hpp"
#include "tools/sparcl/engine_notice.hpp"
#include "tools/sparcl/metrics_page.hpp"
#include "tools/sparcl/part_choice.hpp"

namespace sparcl::tool {

struct FollowOptions {
  std::string url, output;
  std::string model_id, trust_path;  // "": any model; no signature is required
  std::size_t trust_threshold = 1;
  PartChoice parts;          // what the checkpoint has of the model
  bool may_replace = false;  // a checkpoint of another model
  std::string command;       // run after each version; "": none
  NoticeOptions notice;      // engines that are told
  MetricsPlace metrics;      // of follow_store()
  std::uint64_t until = 0;  // ends once the file holds this version or a later one; 0: does not end
  double timeout_s = 0;     // without a version
  double poll_s = 1;        // between two looks at the store
  double lease_seconds = 0;  // 0: store::kLeaseSeconds
};

// Until a stop is asked for, or `until` is reached.
Status follow_store(const FollowOptions& options, bool as_json);

// Brings the output to a version; 0: the newest. InvalidArgument: the store does not have it.
Status restore_from_store(const FollowOptions& options, std::uint64_t version, bool as_json);

}  // namespace sparcl::tool
