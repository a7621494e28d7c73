#pragma once
// What block routines use of CUDA, on the host: the threads of some blocks at a time are fibers of
// one thread, and a seed decides who runs next, so that each order of events comes again. Include
// it before the routines.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "tests/emulated/fiber_place.hpp"

#define __device__

namespace sparcl::test::emulated {

struct NoShared {};  // of blocks that share no memory

struct Index {
  unsigned x = 0;
};

class Grid;
inline Grid* running = nullptr;

// One launch: blocks * threads fibers of which `resident` blocks live at a time, taken up in order.
class Grid {
 public:
  Grid(unsigned blocks, unsigned threads, unsigned resident, std::uint64_t seed,
       std::function<void(void* shared)> body, std::function<std::shared_ptr<void>()> make_shared)
      : blocks_(blocks),
        threads_(threads),
        random_(seed),
        body_(std::move(body)),
        make_shared_(std::move(make_shared)) {
    running = this;
    while (live_.size() < resident && next_block_ < blocks_) begin_block();
    while (!live_.empty()) turn();
    running = nullptr;
  }

  Index thread() const { return {current_->thread}; }
  Index block() const { return {current_->block->number}; }
  Index block_size() const { return {threads_}; }
  Index grid_size() const { return {blocks_}; }

  void yield() { go(current_->place, scheduler_); }

  // All threads of the block meet.
  void meet_block() {
    meet(current_->block->barrier, static_cast<unsigned>(current_->block->fibers.size()));
  }

  // All lanes of the warp give a value, and each sees all.
  std::array<std::uint64_t, 32> exchange(std::uint64_t value) {
    Warp& warp = current_->block->warps[current_->thread / 32];
    const std::uint64_t round = warp.barrier.round;
    warp.values[round % 2][current_->thread % 32] = value;
    meet(warp.barrier, std::min(32U, threads_ - current_->thread / 32 * 32));
    return warp.values[round % 2];  // the next round's are the others, and the one after begins
                                    // when all have come through this one
  }

 private:
  struct Barrier {
    std::uint64_t round = 0;
    unsigned came = 0;
  };
  struct Warp {
    Barrier barrier;
    std::array<std::array<std::uint64_t, 32>, 2> values{};
  };
  struct Block;
  struct Fiber {
    FiberPlace place;
    std::unique_ptr<char[]> stack;
    Block* block = nullptr;
    unsigned thread = 0;
    bool is_over = false;
  };
  struct Block {
    unsigned number = 0;
    std::shared_ptr<void> shared;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Warp> warps;
    Barrier barrier;
    unsigned ended = 0;
  };

  static constexpr std::size_t kStackBytes = 64 * 1024;

  void meet(Barrier& barrier, unsigned count) {
    const std::uint64_t round = barrier.round;
    if (++barrier.came == count) {
      barrier.came = 0;
      ++barrier.round;
      return;
    }
    while (barrier.round == round) yield();
  }

  static void enter() {
    Grid& grid = *running;
    grid.body_(grid.current_->block->shared.get());
    grid.current_->is_over = true;
    ++grid.current_->block->ended;
    go(grid.current_->place, grid.scheduler_);
    std::abort();
  }

  static void prepare(Fiber& fiber) {
    if (stacks_.empty()) stacks_.push_back(std::make_unique_for_overwrite<char[]>(kStackBytes));
    fiber.stack = std::move(stacks_.back());
    stacks_.pop_back();
    fiber.place.has_begun = false;
    getcontext(&fiber.place.context);
    fiber.place.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.place.context.uc_stack.ss_size = kStackBytes;
    makecontext(&fiber.place.context, &Grid::enter, 0);
  }

  void begin_block() {
    auto block = std::make_unique<Block>();
    block->number = next_block_++;
    block->shared = make_shared_();
    block->warps.resize((threads_ + 31) / 32);
    for (unsigned thread = 0; thread < threads_; ++thread) {
      auto fiber = std::make_unique<Fiber>();
      fiber->block = block.get();
      fiber->thread = thread;
      prepare(*fiber);
      block->fibers.push_back(std::move(fiber));
    }
    live_.push_back(std::move(block));
  }

  // Runs every thread of one block until it waits, in an order of chance.
  void turn() {
    const std::size_t chosen = random_() % live_.size();
    Block& block = *live_[chosen];
    const std::size_t first = random_() % block.fibers.size();
    for (std::size_t i = 0; i < block.fibers.size(); ++i) {
      Fiber& fiber = *block.fibers[(first + i) % block.fibers.size()];
      if (fiber.is_over) continue;
      current_ = &fiber;
      go(scheduler_, fiber.place);
    }
    if (block.ended < block.fibers.size()) return;
    for (const std::unique_ptr<Fiber>& fiber : block.fibers)
      stacks_.push_back(std::move(fiber->stack));
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(chosen));
    if (next_block_ < blocks_) begin_block();
  }

  unsigned blocks_, threads_, next_block_ = 0;
  std::mt19937_64 random_;
  std::function<void(void*)> body_;
  std::function<std::shared_ptr<void>()> make_shared_;
  std::vector<std::unique_ptr<Block>> live_;
  Fiber* current_ = nullptr;
  FiberPlace scheduler_;
  static inline thread_local std::vector<std::unique_ptr<char[]>>
      stacks_;  // of fibers that have ended
};

// routine(shared) by every thread of every block. Shared memory is not zero at the start.
template <class Shared, class Routine>
void launch(unsigned blocks, unsigned threads, std::uint64_t seed, const Routine& routine) {
  const unsigned resident = 1 + static_cast<unsigned>(seed % 5);
  Grid(
      blocks, threads, resident, seed,
      [&](void* shared) { routine(*static_cast<Shared*>(shared)); },
      [] {
        auto made = std::make_shared<Shared>();
        std::memset(static_cast<void*>(made.get()), 0xa5, sizeof(Shared));
        return std::shared_ptr<void>(made);
      });
}

template <class T>
std::uint64_t bits_of(T value) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T value_of(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace sparcl::test::emulated

#define threadIdx (::sparcl::test::emulated::running->thread())
#define blockIdx (::sparcl::test::emulated::running->block())
#define blockDim (::sparcl::test::emulated::running->block_size())
#define gridDim (::sparcl::test::emulated::running->grid_size())

namespace sparcl::kernels::cuda {

inline void __syncthreads() { test::emulated::running->meet_block(); }
inline bool wait_a_little() {
  test::emulated::running->yield();
  return true;
}
inline std::uint32_t __ballot_sync(std::uint32_t, bool value) {
  const auto all = test::emulated::running->exchange(value ? 1 : 0);
  std::uint32_t bits = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    bits |= static_cast<std::uint32_t>(all[lane] & 1) << lane;
  return bits;
}
template <class T>
T shuffled(T value, int from) {
  const auto all = test::emulated::running->exchange(test::emulated::bits_of(value));
  return from < 0 || from > 31 ? value
                               : test::emulated::value_of<T>(all[static_cast<std::size_t>(from)]);
}
inline int own_lane() { return static_cast<int>(threadIdx.x % 32); }
template <class T>
T __shfl_sync(std::uint32_t, T value, unsigned from) {
  return shuffled(value, static_cast<int>(from));
}
template <class T>
T __shfl_up_sync(std::uint32_t, T value, unsigned by) {
  return shuffled(value, own_lane() - static_cast<int>(by));
}
template <class T>
T __shfl_down_sync(std::uint32_t, T value, unsigned by) {
  return shuffled(value, own_lane() + static_cast<int>(by));
}
inline int __popc(std::uint32_t bits) { return std::popcount(bits); }
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
inline int __clzll(long long bits) {
  return std::countl_zero(static_cast<unsigned long long>(bits));
}
template <class T>
T atomicOr(T* to, T value) {
  const T old = *to;
  *to = static_cast<T>(old | value);
  return old;
}
template <class T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to = static_cast<T>(old + value);
  return old;
}

}  // namespace sparcl::kernels::cuda
