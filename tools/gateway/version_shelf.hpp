#pragma once
// The versions that a gateway gives away: all bytes of one version, and the steps that led to the
// newest one.
//
//   memory of the source   the newest version
//   mirror                 the version before it, until the step between the two is made; then the
//                          newest one. Anchors are read from it
//   steps                  a bounded list; each begins where the one before it ends
//
// The mirror is written to only while no anchor is read. A client may read an anchor for
// `patience_s` after a newer version has come, and a step for as long after it has left the list.
// Then its shipment is revoked.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "src/model/snapshot.hpp"
#include "tools/gateway/shipment.hpp"

namespace sparcl::gateway {

struct ShelfLimits {
  std::size_t steps = 64;
  std::uint64_t bytes = std::uint64_t{1} << 30;        // of all steps
  std::uint64_t chunk_bytes = std::uint64_t{1} << 20;  // of positions and values
  double patience_s = 300;
};

class VersionShelf {
 public:
  // The memory outlives the shelf, and every shipment ends before the shelf.
  VersionShelf(const tool::ModelMemory& memory, const ShelfLimits& limits)
      : memory_(memory), limits_(limits) {}
  VersionShelf(const VersionShelf&) = delete;
  VersionShelf& operator=(const VersionShelf&) = delete;

  struct Shown {
    std::uint64_t changed = 0, plain_bytes = 0, coded_bytes = 0;
    bool has_step = false;  // without one, clients get an anchor
  };
  // The memory holds this version now, and keeps it until the call returns. is_over: the process is
  // to end. One thread at a time. An error: this version cannot be shown.
  Result<Shown> show(const model::HeldVersion& version, const std::function<bool()>& is_over);

  struct Wish {
    std::optional<model::HeldVersion> held{};
    v1::Form form = v1::PLAIN;
    TensorFilter filter{};
    bool wants_anchor = false;
  };
  // nullptr: nothing yet; the callback of on_news() tells of a change.
  ShipmentRef next_for(const Wish& wish);
  // Called by any thread, without a lock of the shelf. Once, before the first next_for().
  void on_news(std::function<void()> news) { news_ = std::move(news); }

  const tool::ModelMemory& memory() const { return memory_; }
  const ShelfLimits& limits() const { return limits_; }
  std::optional<model::HeldVersion> newest() const;

 private:
  Status fill_mirror(const model::HeldVersion& version);
  void keep(const VersionStepRef& step, const model::HeldVersion& version);
  void drop_oldest();
  bool wait_for_readers(const std::function<bool()>& is_over);
  void bring_mirror_forward(const VersionStepRef& step);
  void tell() const;
  std::size_t first_step_from(const Hash128& held) const;
  ShipmentRef step_for(const Wish& wish) const;
  ShipmentRef anchor_for(const Wish& wish);
  void end_lease();

  const tool::ModelMemory& memory_;
  const ShelfLimits limits_;
  std::function<void()> news_;
  model::Snapshot mirror_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable left_;
  std::optional<model::HeldVersion> newest_, mirrored_;
  std::deque<VersionStepRef> steps_;
  std::uint64_t step_bytes_ = 0;
  int readers_ = 0;
  bool is_writing_ = false;        // the mirror is being written to, or soon will be
  std::uint64_t era_ = 0;          // how often the mirror was written
  std::uint64_t revoked_era_ = 0;  // leases up to it have to end
};

}  // namespace sparcl::gateway
