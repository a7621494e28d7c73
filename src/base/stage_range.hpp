#pragma once
// Names a stretch of time for profilers (NVTX: Nsight Systems and its like). Without one it costs a
// load and a branch; where the build had no nvtx3, nothing. A range may begin and end on different
// threads, and overlap others: calls in flight do.

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
