#include "src/api/handle_table.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

namespace sparcl::api {
namespace {

// A handle, from its low bits on: 0xA5, 4 bits of kind, 24 of slot, 28 of use. Uses begin at 2^27,
// so that the highest bit is set. No object in user memory of x86-64 and AArch64 has an address
// that is odd and that high.
constexpr unsigned kKindShift = 8, kSlotShift = 12, kUseShift = 36;
constexpr std::uint64_t kMark = 0xA5, kKindMask = 0xF, kSlotMask = (1U << 24) - 1;
constexpr std::uint32_t kFirstUse = 1U << 27, kLastUse = (1U << 28) - 1;
static_assert(sizeof(HandleNumber) == 8);

// The state of a slot in one word: its use, whether it has an object, and how many holders.
constexpr std::uint64_t kHolder = 1, kHolders = (std::uint64_t{1} << 32) - 1;
constexpr std::uint64_t kIsOpen = std::uint64_t{1} << 32, kIsClosing = std::uint64_t{1} << 33;
constexpr unsigned kStateUseShift = 34;

constexpr std::uint64_t use_in(std::uint64_t state) { return state >> kStateUseShift; }

struct Slot {
  std::atomic<std::uint64_t> state{std::uint64_t{kFirstUse} << kStateUseShift};
  std::atomic<void*> object{nullptr};
  std::atomic<std::uint32_t> next_free{0};
};

// Blocks of slots are made as they are needed, and stay. Without locks: a child of fork() finds it
// usable at any time.
constexpr std::uint32_t kBlockSlots = 1024, kBlocks = (1U << 24) / kBlockSlots;
using Block = std::array<Slot, kBlockSlots>;

struct Table {
  std::array<std::atomic<Block*>, kBlocks> blocks{};
  std::atomic<std::uint32_t> used{1};  // slot 0 is none
  std::atomic<std::uint64_t> free{0};  // the first free slot, and above it a count against ABA

  Slot* find(std::uint32_t slot) {
    Block* const block = blocks[slot / kBlockSlots].load(std::memory_order_acquire);
    return block != nullptr ? &(*block)[slot % kBlockSlots] : nullptr;
  }
  Slot& make(std::uint32_t slot) {
    std::atomic<Block*>& block = blocks[slot / kBlockSlots];
    if (block.load(std::memory_order_acquire) == nullptr) {
      auto made = std::make_unique<Block>();
      Block* none = nullptr;
      if (block.compare_exchange_strong(none, made.get(), std::memory_order_acq_rel))
        (void)made.release();
    }
    return *find(slot);
  }
  std::uint32_t take() {
    std::uint64_t first = free.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(first) != 0) {
      const std::uint32_t next =
          find(static_cast<std::uint32_t>(first))->next_free.load(std::memory_order_relaxed);
      const std::uint64_t changed = (((first >> 32) + 1) << 32) | next;
      if (free.compare_exchange_weak(first, changed, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
        return static_cast<std::uint32_t>(first);
    }
    const std::uint32_t slot = used.fetch_add(1, std::memory_order_relaxed);
    if (slot <= kSlotMask) return slot;
    used.fetch_sub(1, std::memory_order_relaxed);
    throw std::bad_alloc();
  }
  void give_back(std::uint32_t slot) {
    std::uint64_t first = free.load(std::memory_order_relaxed);
    do {
      find(slot)->next_free.store(static_cast<std::uint32_t>(first), std::memory_order_relaxed);
    } while (!free.compare_exchange_weak(first, (((first >> 32) + 1) << 32) | slot,
                                         std::memory_order_acq_rel));
  }
};

// Never destroyed: handles may outlive the statics of a program.
Table& handle_table() {
  static Table* const table = new Table;
  return *table;
}

std::uint32_t slot_of(HandleNumber handle) {
  return static_cast<std::uint32_t>((handle >> kSlotShift) & kSlotMask);
}
std::uint64_t use_of(HandleNumber handle) { return handle >> kUseShift; }

struct KindWords {
  const char* type;
  const char* made_by;
  const char* ended_by;
};
constexpr auto kKindWords = std::to_array<KindWords>({
    {"sparclComm_t",
     "sparclCommInitMpi, sparclCommInitRank, sparclCommInitLocal or sparclCommShrink",
     "sparclCommDestroy"},
    {"sparclRequest_t", "a non-blocking call",
     "sparclWait or sparclTest, which returned its result"},
    {"sparclState_t", "sparclStateCreate", "sparclStateDestroy"},
    {"sparclMask_t", "sparclMaskCreateIndices, sparclMaskCreateRandom or sparclMaskCreateBlocks",
     "sparclMaskDestroy"},
    {"sparclFeedback_t", "sparclFeedbackCreate or sparclFeedbackLoad", "sparclFeedbackDestroy"},
    {"sparclAggregator_t", "sparclAggregatorCreate or sparclAggregatorLoad",
     "sparclAggregatorDestroy"},
    {"sparclWorker_t", "sparclWorkerCreate", "sparclWorkerDestroy"},
    {"sparclPublisher_t", "sparclPublisherCreate", "sparclPublisherDestroy"},
    {"sparclSubscriber_t", "sparclSubscriberCreate", "sparclSubscriberDestroy"},
    {"sparclStore_t", "sparclStoreOpen", "sparclStoreClose"},
});
static_assert(kKindWords.size() == static_cast<std::size_t>(HandleKind::kStore) + 1);

const KindWords& words_of(HandleKind kind) { return kKindWords[static_cast<std::size_t>(kind)]; }

Status no_handle(HandleNumber handle, HandleKind kind, const char* parameter) {
  return Status(
      Code::kInvalidArgument,
      fmt::format("{} is {:#x}, which is no handle: give a {} as {} made it (is the variable set?)",
                  parameter, handle, words_of(kind).type, words_of(kind).made_by));
}

Status ended_handle(HandleKind kind, const char* parameter) {
  return Status(Code::kInvalidUsage,
                fmt::format("{} has ended already, by {}: make a new {}, and set every copy of an "
                            "ended handle to NULL",
                            parameter, words_of(kind).ended_by, words_of(kind).type));
}

constexpr int kClosingNaps = 2000;  // milliseconds

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

}  // namespace

HandleNumber open_handle(HandleKind kind, void* object) {
  Table& table = handle_table();
  const std::uint32_t number = table.take();
  Slot& slot = table.make(number);
  slot.object.store(object, std::memory_order_relaxed);
  const std::uint64_t use = use_in(slot.state.load(std::memory_order_relaxed));
  slot.state.store((use << kStateUseShift) | kIsOpen, std::memory_order_release);
  return (use << kUseShift) | (std::uint64_t{number} << kSlotShift) |
         (static_cast<std::uint64_t>(kind) << kKindShift) | kMark;
}

Result<void*> hold_handle(HandleNumber handle, HandleKind kind, const char* parameter) {
  if (handle == 0) return Status(Code::kInvalidArgument, fmt::format("{} is NULL", parameter));
  const std::uint64_t found_kind = (handle >> kKindShift) & kKindMask;
  Slot* const slot =
      (handle & 0xFF) == kMark && found_kind < kKindWords.size() && use_of(handle) >= kFirstUse
          ? handle_table().find(slot_of(handle))
          : nullptr;
  if (slot == nullptr) return no_handle(handle, kind, parameter);
  std::uint64_t state = slot->state.load(std::memory_order_acquire);
  for (int naps = 0;;) {
    if (use_in(state) < use_of(handle)) return no_handle(handle, kind, parameter);
    if (found_kind != static_cast<std::uint64_t>(kind)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is a {}: expected a {}, as {} made it", parameter,
                                words_of(static_cast<HandleKind>(found_kind)).type,
                                words_of(kind).type, words_of(kind).made_by));
    }
    if (use_in(state) > use_of(handle) || (state & (kIsOpen | kIsClosing)) == 0)
      return ended_handle(kind, parameter);
    if ((state & kIsClosing) != 0) {
      if (++naps > kClosingNaps)
        return Status(Code::kInvalidUsage, fmt::format("another thread destroys {}", parameter));
      nap();
      state = slot->state.load(std::memory_order_acquire);
    } else if (slot->state.compare_exchange_weak(state, state + kHolder, std::memory_order_acq_rel,
                                                 std::memory_order_acquire)) {
      return slot->object.load(std::memory_order_relaxed);
    }
  }
}

void hold_again(HandleNumber held) {
  handle_table().find(slot_of(held))->state.fetch_add(kHolder, std::memory_order_relaxed);
}

void let_go(HandleNumber held) noexcept {
  handle_table().find(slot_of(held))->state.fetch_sub(kHolder, std::memory_order_release);
}

bool close_handle(HandleNumber held) noexcept {
  std::atomic<std::uint64_t>& state = handle_table().find(slot_of(held))->state;
  if ((state.fetch_or(kIsClosing, std::memory_order_acq_rel) & kIsClosing) != 0) return false;
  for (int naps = 0; (state.load(std::memory_order_acquire) & kHolders) > 1; ++naps) {
    if (naps == kClosingNaps) {
      state.fetch_and(~kIsClosing, std::memory_order_release);
      return false;
    }
    nap();
  }
  return true;
}

void bury_handle(HandleNumber handle) noexcept {
  const std::uint32_t number = slot_of(handle);
  Slot& slot = *handle_table().find(number);
  slot.object.store(nullptr, std::memory_order_relaxed);
  const std::uint64_t use = use_of(handle) + 1;
  slot.state.store(use << kStateUseShift, std::memory_order_release);
  if (use <= kLastUse) handle_table().give_back(number);  // else its numbers are used up
}

}  // namespace sparcl::api
