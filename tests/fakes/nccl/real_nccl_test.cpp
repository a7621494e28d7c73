// NCCL itself, as far as it goes without a GPU: its functions and numbers are those that sparcl
// takes them for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <type_traits>

#include "src/base/data_type.hpp"
#include "src/gpu/device_list.hpp"
#include "src/transport/nccl/nccl_engine.hpp"
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace sparcl::test {
namespace {

#ifdef NCCL_VERSION_CODE
// What a call passes lies in the same registers: enums as int, pointers as pointers.
template <class T>
struct Passed {
  using type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Passed<T> {
  using type = int;
};
template <class T>
struct Passed<T*> {
  using type = std::conditional_t<std::is_enum_v<T>, int*,
                                  std::conditional_t<std::is_same_v<T, char>, char*, void*>>;
};
template <class T>
struct Passed<const T*> {
  using type = std::conditional_t<std::is_same_v<T, char>, char*, void*>;
};
template <>
struct Passed<ncclUniqueId> {
  using type = transport::NcclId;
};
template <>
struct Passed<int*> {
  using type = int*;
};
template <class A, class B>
struct Same : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
struct Same<R1 (*)(A1...), R2 (*)(A2...)> : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct Same<R1 (*)(A1...), R2 (*)(A2...)>
    : std::bool_constant<(std::is_same_v<typename Passed<A1>::type, typename Passed<A2>::type> &&
                          ...) &&
                         std::is_same_v<typename Passed<R1>::type, typename Passed<R2>::type>> {
};

#define SAME(member, function) \
  static_assert(Same<decltype(transport::NcclLibrary::member), decltype(&function)>::value)
SAME(get_unique_id, ncclGetUniqueId);
SAME(init_rank, ncclCommInitRankConfig);
SAME(count, ncclCommCount);
SAME(user_rank, ncclCommUserRank);
SAME(device, ncclCommCuDevice);
SAME(async_error, ncclCommGetAsyncError);
SAME(finalize, ncclCommFinalize);
SAME(destroy, ncclCommDestroy);
SAME(abort, ncclCommAbort);
SAME(all_reduce, ncclAllReduce);
SAME(broadcast, ncclBroadcast);
SAME(all_gather, ncclAllGather);
SAME(send, ncclSend);
SAME(receive, ncclRecv);
SAME(group_start, ncclGroupStart);
SAME(group_end, ncclGroupEnd);
SAME(error_string, ncclGetErrorString);

static_assert(sizeof(transport::NcclId) == sizeof(ncclUniqueId));
static_assert(offsetof(transport::NcclConfig, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(transport::NcclConfig, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(transport::NcclConfig, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(ncclSuccess == transport::NcclLibrary::kSuccess &&
              ncclInProgress == transport::NcclLibrary::kInProgress);
static_assert(ncclRemoteError == static_cast<int>(Code::kRemoteError) &&
              ncclUnhandledCudaError == static_cast<int>(Code::kUnhandledCudaError));
static_assert(ncclUint8 == static_cast<int>(DataType::kUint8) &&
              ncclBfloat16 == static_cast<int>(DataType::kBfloat16) &&
              ncclFloat16 == static_cast<int>(DataType::kFloat16) &&
              ncclFloat64 == static_cast<int>(DataType::kFloat64));
static_assert(ncclAvg == static_cast<int>(transport::EngineOp::kMean) &&
              ncclMax == static_cast<int>(transport::EngineOp::kMax) &&
              ncclMin == static_cast<int>(transport::EngineOp::kMin) &&
              ncclProd == static_cast<int>(transport::EngineOp::kProd));
#endif

class RealNccl : public testing::Test {
 protected:
  void SetUp() override {
#ifdef SPARCL_REAL_NCCL
    setenv("SPARCL_NCCL_LIBRARY", SPARCL_REAL_NCCL, 0);
#endif
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    const Result<const transport::NcclLibrary*> loaded = transport::load_nccl();
    if (!loaded.ok()) GTEST_SKIP() << "skipped: " << loaded.status().message();
    nccl_ = *loaded;
  }
  const transport::NcclLibrary* nccl_ = nullptr;
};

TEST_F(RealNccl, GivesVersionsAndIds) {
  EXPECT_GE(nccl_->version, transport::kOldestNccl);
  transport::NcclId first{}, second{};
  ASSERT_EQ(nccl_->get_unique_id(&first), transport::NcclLibrary::kSuccess);
  ASSERT_EQ(nccl_->get_unique_id(&second), transport::NcclLibrary::kSuccess);
  EXPECT_NE(std::string(first.internal, sizeof first.internal),
            std::string(second.internal, sizeof second.internal));
}

// With a GPU one rank is made; without, NCCL's error comes through.
TEST_F(RealNccl, MakesARankOrSaysWhyNot) {
  transport::NcclId id{};
  ASSERT_EQ(nccl_->get_unique_id(&id), transport::NcclLibrary::kSuccess);
  const auto made = transport::NcclEngine::create(*nccl_, id, 0, 1, 60, {});
  if (made.ok()) {
    EXPECT_TRUE((*made)->health().ok());
    return;
  }
  EXPECT_THAT(made.status().message(),
              testing::StartsWith("NCCL " + transport::nccl_version_text(nccl_->version) +
                                  ": ncclCommInitRankConfig: "));
}

}  // namespace
}  // namespace sparcl::test
