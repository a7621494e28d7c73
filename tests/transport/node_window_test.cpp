#include "src/transport/node_window.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "src/base/buffer_pool.hpp"

namespace sparcl {
namespace {

using Opening = transport::NodeWindow::Opening;

// As that of a process of its own.
std::unique_ptr<transport::NodeWindow> make_window(
    std::size_t max_bytes = transport::NodeMemory::kMaxBytes) {
  Result<std::shared_ptr<transport::NodeMemory>> memory = transport::NodeMemory::create(max_bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  return std::make_unique<transport::NodeWindow>(2, *memory, std::make_shared<BufferPool>());
}

void fill(const Buffer& buffer, int value) { std::memset(buffer.data(), value, buffer.size()); }
bool holds(const Buffer& buffer, int value) {
  for (const std::byte each : buffer.bytes()) {
    if (each != static_cast<std::byte>(value)) return false;
  }
  return true;
}

struct Pair {
  Pair() : owner(make_window()), reader(make_window()) {
    EXPECT_EQ(reader->open(0, owner->card()), Opening::kOpen);
    owner->set_shared_with(1);
  }
  std::unique_ptr<transport::NodeWindow> owner, reader;  // ranks 0 and 1
};

TEST(NodeWindow, WhatIsLentIsReadWhereItLies) {
  Pair pair;
  const Buffer whole = pair.owner->take(100'000);
  fill(whole, 1);
  fill(whole.slice(5000, 70'000), 2);
  const auto place = pair.owner->lend(whole.slice(5000, 70'000));
  ASSERT_TRUE(place);
  const auto there = pair.reader->borrow(0, *place);
  ASSERT_TRUE(there);
  EXPECT_EQ(there->size(), 70'000U);
  EXPECT_TRUE(holds(*there, 2));
  whole.data()[5000] = std::byte{9};
  EXPECT_EQ(there->data()[0], std::byte{9}) << "it was copied";
}

// The owner lets go of it first, and takes pieces for other messages: nothing of what is lent
// changes.
TEST(NodeWindow, WhatIsLentStaysUntilItsReadersLetGo) {
  Pair pair;
  Buffer piece = pair.owner->take(50'000);
  fill(piece, 3);
  const std::byte* const at = piece.data();
  std::optional<Buffer> first = pair.reader->borrow(0, *pair.owner->lend(piece));
  std::optional<Buffer> second = pair.reader->borrow(0, *pair.owner->lend(piece));
  piece = {};
  const auto take_many = [&] {
    bool has_at = false;
    std::vector<Buffer> all;
    for (int i = 0; i < 50; ++i) {
      all.push_back(pair.owner->take(50'000));
      fill(all.back(), 4);
      has_at |= all.back().data() == at;
    }
    return has_at;
  };
  EXPECT_FALSE(take_many());
  first.reset();
  EXPECT_FALSE(take_many());
  EXPECT_TRUE(holds(*second, 3));
  const Buffer slice = second->slice(10, 100);
  second.reset();
  EXPECT_FALSE(take_many());
  EXPECT_TRUE(holds(slice, 3));
}

TEST(NodeWindow, PiecesComeBack) {
  Pair pair;
  for (int i = 0; i < 10'000; ++i) {  // 40 times what a window has room for
    Buffer piece = pair.owner->take(500'000);
    const auto place = pair.owner->lend(piece);
    ASSERT_TRUE(place) << "from outside of the window, message " << i;
    piece = {};
    const auto there = pair.reader->borrow(0, *place);
    ASSERT_TRUE(there);
  }
}

TEST(NodeWindow, SizesMayChange) {
  Pair pair;
  const auto hold_many = [&](std::size_t bytes) {
    std::vector<Buffer> all;
    for (std::size_t sum = 0; sum + bytes <= (std::size_t{40} << 20); sum += bytes)
      all.push_back(pair.owner->take(bytes));
    return pair.owner->lend(all.back()).has_value();
  };
  EXPECT_TRUE(hold_many(4 << 20));
  EXPECT_TRUE(hold_many(3 << 20));
  EXPECT_TRUE(hold_many(2 << 20));
}

TEST(NodeWindow, AFullWindowTakesFromBeyond) {
  const auto window = make_window(1 << 20);
  std::vector<Buffer> held;
  for (int i = 0; i < 8; ++i) held.push_back(window->take(300'000));
  EXPECT_TRUE(window->lend(held.front()));
  EXPECT_FALSE(window->lend(held.back()));
  fill(held.back(), 5);
  EXPECT_FALSE(window->lend(window->take(100)));  // small ones are not worth it
  EXPECT_EQ(window->take(std::size_t{64} << 20).size(), std::size_t{64} << 20);
}

TEST(NodeWindow, PlacesOutsideAreRefused) {
  Pair pair;
  const auto place = pair.owner->lend(pair.owner->take(10'000));
  ASSERT_TRUE(place);
  EXPECT_FALSE(pair.reader->borrow(1, *place)) << "no window was opened there";
  for (const transport::NodeWindow::Place& bad :
       {transport::NodeWindow::Place{4096, 0, 10},
        transport::NodeWindow::Place{0, transport::NodeMemory::kMaxBytes + 1, 0},
        transport::NodeWindow::Place{0, 4096, transport::NodeMemory::kMaxBytes},
        transport::NodeWindow::Place{0, UINT64_MAX, 2},
        transport::NodeWindow::Place{UINT64_MAX, 0, 1}}) {
    EXPECT_FALSE(pair.reader->borrow(0, bad));
  }
}

TEST(NodeWindow, CardsOfOthersAreNotOpened) {
  const auto window = make_window();
  auto other = make_window();
  transport::Bytes card = other->card();
  EXPECT_EQ(window->open(1, {}), Opening::kElsewhere);
  EXPECT_EQ(window->open(1, std::span(card).first(30)), Opening::kElsewhere);
  card.back() ^= std::byte{1};  // of the machine's name
  EXPECT_EQ(window->open(1, card), Opening::kElsewhere);
  card = other->card();
  card[0] ^= std::byte{1};  // of the window's own mark
  EXPECT_EQ(window->open(1, card), Opening::kClosed);
  card = other->card();
  card[17] ^= std::byte{1};  // of its size
  EXPECT_EQ(window->open(1, card), Opening::kClosed);
  EXPECT_EQ(window->open(1, other->card()), Opening::kOpen);
  card = other->card();
  other.reset();
  EXPECT_EQ(make_window()->open(1, card), Opening::kOpen) << "this process has it open";
  auto gone = make_window();
  card = gone->card();
  gone.reset();
  EXPECT_EQ(window->open(1, card), Opening::kClosed);
}

std::uint64_t bytes_taken(const transport::NodeMemory& memory) {
  struct stat about {};
  EXPECT_EQ(::fstat(memory.name().descriptor, &about), 0);
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}

TEST(NodeMemory, CommunicatorsShareThatOfTheirProcess) {
  const auto first = transport::NodeMemory::of_process(),
             second = transport::NodeMemory::of_process();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  const auto other = transport::NodeMemory::create();
  ASSERT_TRUE(other.ok());
  EXPECT_NE(transport::NodeMemory::open((*other)->name()), nullptr);
  EXPECT_EQ(transport::NodeMemory::open((*other)->name()),
            transport::NodeMemory::open((*other)->name()))
      << "it was mapped twice";
  // After a failure: a reader may hold loans for ever.
  transport::NodeMemory::forget(*first);
  const auto third = transport::NodeMemory::of_process();
  ASSERT_TRUE(third.ok());
  EXPECT_NE(*first, *third);
}

TEST(NodeMemory, PagesOfTheMeasurementGoBackToTheSystem) {
  const auto memory = transport::NodeMemory::create();
  ASSERT_TRUE(memory.ok());
  const std::uint64_t empty = bytes_taken(**memory);
  const auto use = [&](transport::NodeWindow& window) {
    std::vector<Buffer> pieces;
    for (int i = 0; i < 8; ++i) {
      pieces.push_back(window.take(256 << 10));
      fill(pieces.back(), 7);
    }
    EXPECT_GT(bytes_taken(**memory), empty + (2 << 20) - 1);
  };
  transport::NodeWindow first(2, *memory, std::make_shared<BufferPool>()),
      second(2, *memory, std::make_shared<BufferPool>());
  use(first);
  first.end_measurement();
  EXPECT_LE(bytes_taken(**memory), empty + 4096);
  use(first);  // a call: its readers may have told a network of these pages
  second.end_measurement();
  EXPECT_GE(bytes_taken(**memory), std::uint64_t{2} << 20);
}

TEST(NodeMemory, PagesThatAReaderHoldsStay) {
  Pair pair;
  Buffer piece = pair.owner->take(100'000);
  fill(piece, 8);
  const std::optional<Buffer> there = pair.reader->borrow(0, *pair.owner->lend(piece));
  piece = {};
  pair.owner->end_measurement();
  EXPECT_TRUE(holds(*there, 8));
}

// Communicators that came and went have cut it into small pieces.
TEST(NodeMemory, IsCutAnewOnceAllIsFree) {
  const auto memory = transport::NodeMemory::create(1 << 20);
  ASSERT_TRUE(memory.ok());
  {
    std::vector<Buffer> small;
    while (std::optional<Buffer> piece = (*memory)->take(10'000, transport::NodeMemory::Use::kCall))
      small.push_back(std::move(*piece));
    EXPECT_GT(small.size(), 50U);
  }
  EXPECT_TRUE((*memory)->take(500'000, transport::NodeMemory::Use::kCall));
}

// In another process, which holds the memory also when its owner is gone.
TEST(NodeWindow, BetweenProcesses) {
  auto owner = make_window();
  const Buffer piece = owner->take(20'000);
  fill(piece, 6);
  const transport::NodeWindow::Place place = *owner->lend(piece);
  const transport::Bytes card = owner->card();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto reader = make_window();
    if (reader->open(0, card) != Opening::kOpen) ::_exit(2);
    std::optional<Buffer> there = reader->borrow(0, place);
    const bool is_right = there && holds(*there, 6);
    there.reset();
    ::_exit(is_right ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sparcl
