// Calls by way of the host, which wait for their stream: one that is stuck in a kernel of the
// program's is a named error.

#include "tests/fakes/nccl/update_ranks.hpp"

namespace sparcl::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::Ne;

using DeviceWaits = NcclRanks;

constexpr std::size_t kCount = 3'000, kRoom = 100;

// A rank's arrays.
struct Arrays {
  OnDevice<float> values{std::vector<float>(kCount, 1.0F)}, sums{std::vector<float>(kCount, 0.0F)};
  OnDevice<std::uint64_t> indices{{1, 2, 3}}, union_of{std::vector<std::uint64_t>(kRoom, 0)};
  std::size_t nnz = 3;
};

using Call = sparclResult_t (*)(Arrays&, sparclComm_t, sparclStream_t);

sparclResult_t broadcast_sparse(Arrays& own, sparclComm_t comm, sparclStream_t stream) {
  return sparclBroadcastSparse(own.values.get(), own.indices.get(), &own.nnz, 3, sparclFloat32, 0,
                               nullptr, comm, stream);
}
sparclResult_t sum_sparse(Arrays& own, sparclComm_t comm, sparclStream_t stream) {
  return sparclAllReduceSparse(own.values.get(), own.indices.get(), 3, kCount, own.sums.get(),
                               own.union_of.get(), &own.nnz, kRoom, sparclFloat32, sparclSum,
                               nullptr, comm, stream);
}
// Of all elements: the arrays themselves cross.
template <int kPercent>
sparclResult_t sum_masked(Arrays& own, sparclComm_t comm, sparclStream_t stream) {
  sparclMask_t mask = nullptr;
  EXPECT_EQ(sparclMaskCreateRandom(&mask, kCount, kPercent / 100.0, 1), sparclSuccess);
  const sparclResult_t result =
      sparclAllReduceMasked(own.values.get(), own.sums.get(), kCount, sparclFloat32, sparclSum,
                            mask, nullptr, nullptr, comm, stream);
  EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
  return result;
}
sparclResult_t sum_top_k(Arrays& own, sparclComm_t comm, sparclStream_t stream) {
  return sparclAllReduceTopK(own.values.get(), own.sums.get(), kCount, 10, sparclFloat32, sparclSum,
                             nullptr, nullptr, comm, stream);
}

constexpr Call kCalls[] = {broadcast_sparse, sum_sparse, sum_masked<10>, sum_masked<100>,
                           sum_top_k};

// A kernel that does not end until go_on().
void put_kernel_into(sparclStream_t stream) {
  stall(stream, 0);
  enqueue(stream, [] {});
}

void expect_named(const ThreadRanks& party, const std::vector<sparclResult_t>& results) {
  EXPECT_EQ(results[0], sparclTimeout);
  EXPECT_THAT(results, Each(Ne(sparclSuccess)));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(
        std::string(sparclGetLastError(party.comm(rank))),
        AllOf(HasSubstr("rank 0"), HasSubstr("has waited 0.3 s for the stream of its call")));
  }
}

TEST_F(DeviceWaits, AStuckStreamEndsTheCallOnAllRanks) {
  const Setting timeout("SPARCL_TIMEOUT_S", "0.4");
  for (const Call& call : kCalls) {
    SCOPED_TRACE(&call - kCalls);
    ThreadRanks party(2);
    Arrays own[2];
    put_kernel_into(stream_of(0));
    expect_named(party, party.run([&](int rank, sparclComm_t comm) {
      return call(own[rank], comm, stream_of(rank));
    }));
    EXPECT_EQ(own[0].sums.read(), std::vector<float>(kCount, 0.0F));
    go_on(stream_of(0));
  }
}

TEST_F(DeviceWaits, ABusyStreamIsWaitedFor) {
  for (const Call& call : kCalls) {
    ThreadRanks party(2);
    Arrays own[2];
    put_kernel_into(stream_of(0));
    EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
      if (rank == 1) go_on(stream_of(0));
      return call(own[rank], comm, stream_of(rank));
    }),
                Each(sparclSuccess));
  }
}

TEST_F(DeviceWaits, AnAbortEndsTheCall) {
  ThreadRanks party(2);
  Arrays own[2];
  put_kernel_into(stream_of(0));
  const std::vector<sparclResult_t> results = party.run([&](int rank, sparclComm_t comm) {
    if (rank == 1) (void)sparclCommAbort(party.comm(0));
    return sum_top_k(own[rank], comm, stream_of(rank));
  });
  EXPECT_EQ(results[1], sparclRemoteError);
  // The latter: its communicator was aborted before it called.
  EXPECT_THAT(results[0], AnyOf(sparclRemoteError, sparclInvalidUsage));
  go_on(stream_of(0));
}

// Between a call's start and its end the program may enqueue anything.
TEST_F(DeviceWaits, AStreamThatIsStuckWhenAResultComesBack) {
  const Setting timeout("SPARCL_TIMEOUT_S", "0.4");
  ThreadRanks party(2);
  Arrays own[2];
  sparclMask_t mask = nullptr;
  ASSERT_EQ(sparclMaskCreateRandom(&mask, kCount, 0.1, 1), sparclSuccess);
  std::atomic<int> started = 0;
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    sparclRequest_t request = nullptr;
    EXPECT_EQ(
        sparclIAllReduceMasked(own[rank].values.get(), own[rank].sums.get(), kCount, sparclFloat32,
                               sparclSum, mask, nullptr, nullptr, comm, nullptr, &request),
        sparclSuccess);
    ++started;
    while (started < 2) std::this_thread::yield();
    if (rank == 0) {  // the ranks' default stream is one here
      put_kernel_into(nullptr);
      ++started;
    }
    while (started < 3) std::this_thread::yield();
    return sparclWait(&request, nullptr);
  });
  EXPECT_THAT(results, Each(sparclTimeout));
  EXPECT_THAT(std::string(sparclGetLastError(party.comm(0))),
              AllOf(HasSubstr("its output did not reach the device"),
                    HasSubstr("for the stream of its call")));
  go_on(nullptr);
  EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
}

// Of states: what the host reads or writes of their tensors, and a snapshot that goes to the host
// or comes back.
TEST_F(DeviceWaits, UpdatesByWayOfTheHost) {
  const Setting timeout("SPARCL_TIMEOUT_S", "0.4");
  const sparclUpdateOptions_t all = with(sparclSelectAll), top_k = with(sparclSelectTopK);
  for (const bool is_back : {false, true}) {
    SCOPED_TRACE(is_back);
    UpdateRanks ranks = UpdateRanks::on_device(2);
    ASSERT_THAT(ranks.update(1, 0), Each(sparclSuccess));
    if (is_back) {
      ASSERT_THAT(ranks.update(2, 0, &top_k), Each(sparclSuccess));
    }
    ranks.models[0]->step(3, 0.01);
    const std::vector<Bytes> before = ranks.read();
    put_kernel_into(stream_of(0));
    expect_named(ranks.party(), ranks.update(3, 0, is_back ? &all : &top_k));
    go_on(stream_of(0));
    EXPECT_EQ(ranks.read(), before);
    ranks.meet_again();
    EXPECT_THAT(ranks.update(4, 0), Each(sparclSuccess)) << ranks.error(0);
    EXPECT_EQ(ranks.models[0]->read(), ranks.models[1]->read());
  }
}

}  // namespace
}  // namespace sparcl::test
