#pragma once
// Names a time range for profilers (NVTX: Nsight Systems and similar). Without a profiler it costs
// a load and a branch; without nvtx3 in the build, nothing. A range may begin and end on different
// threads, and overlap others, as concurrent calls do.

#include <cstdint>

namespace sparcl {

class StageRange {
 public:
  explicit StageRange(const char* name) noexcept;  // a constant
  ~StageRange();
  StageRange(const StageRange&) = delete;
  StageRange& operator=(const StageRange&) = delete;

 private:
  std::uint64_t id_;
};

}  // namespace sparcl
