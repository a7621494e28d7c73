#pragma once
// The cost of a change in each mode, measured by encoding it.

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/file_watch.hpp"
#include "src/model/files/change_shape.hpp"

namespace sparcl::model {

struct ModeCost {
  std::string name;
  std::uint64_t bytes = 0;
  double seconds = 0;  // of encoding on this machine, including the time to read the files
};

struct ModeCosts {
  ChangeShape shape;
  std::vector<ModeCost> modes;  // of files, as sparcl diff --mode writes them; the first: auto, the
                                // cheapest mode for each block
  ModeCost broadcast;           // as a root sends it: encoded faster, and sometimes larger
  std::string best_mode;        // of the forced modes
};

// Mismatch if the checkpoints at the two paths have different tensors.
Result<ModeCosts> measure_costs(const std::string& first, const std::string& second,
                                const FileWatch& watch = {});

}  // namespace sparcl::model
