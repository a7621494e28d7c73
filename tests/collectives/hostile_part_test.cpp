// A rank whose memory is damaged, or that means harm, sends a part with indices that the sum does
// not have: the others say so, and write nothing behind their callers' arrays.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "src/comm/agreement/agreement.hpp"
#include "src/transport/loopback/loopback_world.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::uint64_t kCount = 100;

CommContext context_of(Engine& engine) {
  CommContext context;
  context.engine = &engine;
  context.kernels = &kernels::cpu_kernels();
  context.sparse_sum_algorithm = "gather";
  context.entry_coding = comm::EntryCoding::kOff;
  return context;
}

// Agrees on the call as the others do, and then sends entries at `indices` whatever was agreed on.
Task send_part(const CommContext& comm, std::vector<std::uint64_t> indices) {
  CallFingerprint fingerprint;
  fingerprint.operation = static_cast<std::uint32_t>(CallKind::kAllReduceSparse);
  fingerprint.datatype = static_cast<std::uint32_t>(DataType::kInt8);
  fingerprint.algorithm = sparse_sum::forced_row("gather");
  fingerprint.count = kCount;
  fingerprint.detail = static_cast<std::uint64_t>(Determinism::kCanonical);
  Extents extents{kCount, kCount, UINT32_MAX, 0, 65535};
  Status verdict;
  Task agreement = agree(*comm.engine, {1, 0}, fingerprint, Status(), verdict, {}, 0, &extents);
  const Status agreed = co_await agreement;
  EXPECT_TRUE(agreed.ok() && verdict.ok()) << agreed.message() << verdict.message();
  sparse_sum::SparseSumCall sum;
  sum.count = kCount;
  const sparse::BlockRun run = whole_run(comm, sum);
  const std::vector<std::byte> values(indices.size(), std::byte{1});
  Traffic traffic;
  sparse_sum::PartMessages messages(comm, 1, traffic);
  const Buffer part = write_part(*comm.buffers, *comm.kernels, run, indices, values.data(), 1);
  sparse_sum::PartMessages::Arrival arrival =
      messages.receive(0, sparse_sum::kPartLane, {run, 1}, max_part_bytes(run, kCount, 1));
  messages.send(0, sparse_sum::kPartLane, part, {run, 1});
  Task waiting = messages.wait(arrival, "the other's part");
  (void)co_await waiting;
  Task departure = messages.wait_sent();
  co_return co_await departure;
}

TEST(HostilePart, NothingIsWrittenBehindTheOutputs) {
  for (const std::uint64_t capacity :
       {kCount, kCount - 1}) {  // written as parts come, and when all is there
    std::vector<std::uint64_t> outside(30);
    for (std::size_t i = 0; i < outside.size(); ++i) outside[i] = kCount + i;
    transport::LoopbackWorld world(2);
    const auto own = world.make_transport(0), other = world.make_transport(1);
    std::thread hostile([&] {
      Engine engine(*other, 10);
      const CommContext comm = context_of(engine);
      Task task = send_part(comm, outside);
      engine.run(task);
    });
    Engine engine(*own, 10);
    const CommContext comm = context_of(engine);
    std::vector<std::uint64_t> indices(20), out_indices(2 * kCount, 77);
    std::vector<std::byte> values(indices.size(), std::byte{1}),
        out_values(2 * kCount, std::byte{77});
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
    sparse_sum::SparseAllReduceCall call;
    call.indices = indices;
    call.values = values.data();
    call.count = kCount;
    call.kind.datatype = DataType::kInt8;
    call.out_indices = out_indices.data();
    call.out_values = out_values.data();
    call.out_capacity = capacity;
    CallReport report;
    Task task = all_reduce_sparse(comm, 1, call, report);
    engine.run(task);
    hostile.join();
    EXPECT_EQ(task.result().code(), Code::kSystemError) << capacity;
    EXPECT_THAT(std::string(task.result().message()),
                testing::HasSubstr("is no part of this sparse sum"));
    for (const std::uint64_t index : out_indices)
      EXPECT_TRUE(index == 77 || index < kCount) << index;
    EXPECT_EQ(std::vector<std::uint64_t>(
                  out_indices.begin() + static_cast<std::ptrdiff_t>(capacity), out_indices.end()),
              std::vector<std::uint64_t>(2 * kCount - capacity, 77));
  }
}

}  // namespace
}  // namespace sparcl::collectives
