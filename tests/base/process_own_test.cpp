#include "src/base/process_own.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "src/base/buffer_pool.hpp"
#include "tests/support/child_process.hpp"

namespace sparcl {
namespace {

struct Owned {
  int number = 0;
};
using Shared = std::shared_ptr<Owned>;

Shared take() {
  return *shared_by_process<Owned>([] { return Result(std::make_shared<Owned>()); });
}

TEST(ProcessOwn, AChildOfForkMakesItsOwn) {
  process_own<Owned>().number = 7;
  const Shared held = take();
  held->number = 8;
  test::ChildProcess child([&]() -> std::string {
    return process_own<Owned>().number == 0 && take() != held && take()->number == 0
               ? "its own"
               : "the parent's";
  });
  EXPECT_EQ(child.text(), "its own");
  EXPECT_EQ(process_own<Owned>().number, 7);
  EXPECT_EQ(take(), held);
}

TEST(ProcessOwn, IsThereAsLongAsItIsHeld) {
  Shared held = take();
  EXPECT_EQ(take(), held);
  const std::weak_ptr<Owned> watched = held;
  held.reset();
  EXPECT_TRUE(watched.expired());
  held = take();
  unshare_by_process(held);
  EXPECT_NE(take(), held);
}

TEST(ProcessOwn, AFailureIsNotKept) {
  EXPECT_FALSE(shared_by_process<Owned>([]() -> Result<Shared> { return no_memory(); }).ok());
  EXPECT_NE(take(), nullptr);
}

TEST(ProcessOwn, ThreadsGetTheSame) {
  std::vector<std::thread> threads;
  std::vector<const void*> found(8);
  for (std::size_t i = 0; i < found.size(); ++i)
    threads.emplace_back([&found, i] { found[i] = &process_own<std::vector<Owned>>(); });
  for (std::thread& each : threads) each.join();
  for (const void* each : found) EXPECT_EQ(each, found[0]);
}

TEST(BufferPool, CommunicatorsShareThatOfTheProcess) {
  const auto pool = BufferPool::of_process();
  EXPECT_EQ(BufferPool::of_process(), pool);
  const std::byte* const at = pool->take(100'000).data();
  EXPECT_EQ(BufferPool::of_process()->take(100'000).data(), at);
}

}  // namespace
}  // namespace sparcl
