#pragma once
// The bytes of one version, in a snapshot that is brought forward to later ones: what each of these
// updates has replaced is laid over it. Work on the version need not hold publish() up.

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/codec/changed_state.hpp"
#include "src/model/version_update.hpp"

namespace sparcl::replication {

using model::ChangeLogRef;

class VersionView final : public codec::ArraySource {
 public:
  // logs: what the updates since the version have replaced, in their order. All but these outlives
  // the view.
  VersionView(const codec::BlockMap& map, std::span<std::byte* const> snapshot,
              std::vector<ChangeLogRef> logs, const kernels::KernelSet& kernels)
      : map_(map), snapshot_(snapshot), logs_(std::move(logs)), kernels_(kernels) {
    look_again();
  }

  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override {
    state_->read(array, first, count, out);
  }
  // The snapshot has been brought forward. No thread reads meanwhile.
  void bring_forward(const ChangeLogRef& replaced) {
    logs_.push_back(replaced);
    look_again();
  }
  std::uint64_t log_bytes() const {
    std::uint64_t bytes = 0;
    for (const ChangeLogRef& each : logs_) bytes += each->bytes();
    return bytes;
  }

 private:
  void look_again() {
    state_ = std::make_unique<codec::ChangedState>(map_, snapshot_, logs_, kernels_);
  }

  const codec::BlockMap& map_;
  std::span<std::byte* const> snapshot_;
  std::vector<ChangeLogRef> logs_;
  const kernels::KernelSet& kernels_;
  std::unique_ptr<codec::ChangedState> state_;
};

}  // namespace sparcl::replication
