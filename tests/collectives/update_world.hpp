#pragma once
// Ranks that hold a model each, and the broadcast of an update of it under the simulator.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "collectives/broadcast/broadcast.hpp"
#include "src/base/seeded_random.hpp"
#include "src/comm/start/shared_windows.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::test {

using collectives::broadcast::UpdateCall;
using comm::CallReport;
using comm::CommContext;

// The bytes of a list of arrays, and their pointers in the forms that the codec takes.
class Arrays {
 public:
  Arrays() = default;
  explicit Arrays(const codec::BlockMap& map) {
    for (const codec::ArraySpec& array : map.arrays())
      bytes_.emplace_back(array.count * element_bytes(array.datatype));
  }
  std::vector<std::byte*> pointers() {
    std::vector<std::byte*> all;
    for (auto& bytes : bytes_) all.push_back(bytes.data());
    return all;
  }
  std::vector<const std::byte*> const_pointers() const {
    std::vector<const std::byte*> all;
    for (const auto& bytes : bytes_) all.push_back(bytes.data());
    return all;
  }
  void fill(SeededRandom& random) {
    for (auto& bytes : bytes_) {
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    }
  }
  // Changes about `share` of the elements, bit by bit: NaN, Inf and -0 come up by themselves.
  void change(SeededRandom& random, double share, const codec::BlockMap& map) {
    for (std::size_t a = 0; a < bytes_.size(); ++a) {
      const std::size_t width = element_bytes(map.arrays()[a].datatype);
      for (std::size_t i = 0; i < bytes_[a].size(); i += width) {
        if (random.chance(share))
          bytes_[a][i + random.below(width)] ^= static_cast<std::byte>(1 + random.below(255));
      }
    }
  }
  friend bool operator==(const Arrays&, const Arrays&) = default;

 private:
  std::vector<std::vector<std::byte>> bytes_;
};

class UpdateWorld {
 public:
  UpdateWorld(std::vector<codec::ArraySpec> arrays, int ranks, std::uint64_t seed,
              const SimOptions& options = {})
      : map(arrays),
        old_state(map),
        new_state(map),
        party(ranks, seed, options),
        random_(seed ^ 0xa11) {
    old_state.fill(random_);
    new_state = old_state;
    held.assign(static_cast<std::size_t>(ranks), old_state);
    contexts.resize(held.size());
    reports.resize(held.size());
    for (int rank = 0; rank < ranks; ++rank) {
      contexts[static_cast<std::size_t>(rank)].engine = &party.engine(rank);
      contexts[static_cast<std::size_t>(rank)].kernels = &kernels::cpu_kernels();
      contexts[static_cast<std::size_t>(rank)].broadcast_algorithm = "chain";  // auto may be dense
    }
  }

  // Ranks of one machine read each other's windows from now on.
  void share_windows() {
    const std::uint32_t number = next_call_++;
    const transport::SimOutcome outcome = party.run([&](int rank) {
      return comm::share_windows(contexts[static_cast<std::size_t>(rank)], {number, 0}, true);
    });
    EXPECT_TRUE(outcome.ok()) << outcome.report;
    for (const CommContext& context : contexts) EXPECT_NE(context.window, nullptr);
  }

  void change(double share) { new_state.change(random_, share, map); }

  // One broadcast of old_state -> new_state. The root's own array holds new_state, as a trainer's
  // would.
  transport::SimOutcome broadcast(int root,
                                  const std::function<void(int rank, UpdateCall&)>& adjust = {}) {
    held[static_cast<std::size_t>(root)] = new_state;
    const auto base = old_state.const_pointers();
    std::vector<std::vector<std::byte*>> pointers;
    for (Arrays& arrays : held) pointers.push_back(arrays.pointers());
    calls.assign(held.size(), UpdateCall{});
    for (std::size_t rank = 0; rank < held.size(); ++rank) {
      UpdateCall& call = calls[rank];
      call.root = root;
      call.version = static_cast<int>(rank) == root ? 8 : 0;
      call.sender.base_version = 7;
      call.map = &map;
      call.schema_hash = {1, 2};
      call.receiver.writing = writing;
      call.held = pointers[rank];
      if (static_cast<int>(rank) == root) call.sender.base = base;
      reports[rank] = CallReport{};
      if (adjust) adjust(static_cast<int>(rank), call);
    }
    const std::uint32_t number = next_call_++;
    return party.run([&](int rank) {
      const auto r = static_cast<std::size_t>(rank);
      return collectives::broadcast::broadcast_update(contexts[r], number, calls[r], reports[r]);
    });
  }

  // How many ranks hold the new state; -1 if some rank holds neither state.
  int ranks_at_target() const {
    int at_target = 0;
    for (const Arrays& arrays : held) {
      if (arrays == new_state)
        ++at_target;
      else if (!(arrays == old_state))
        return -1;
    }
    return at_target;
  }

  codec::Writing writing = codec::Writing::kEarly;
  codec::BlockMap map;
  Arrays old_state, new_state;
  std::vector<Arrays> held;
  SimParty party;
  std::vector<CommContext> contexts;
  std::vector<CallReport> reports;
  std::vector<UpdateCall> calls;

 private:
  SeededRandom random_;
  std::uint32_t next_call_ = 1;
};

}  // namespace sparcl::test
