// The pieces that an exchange between all ranks asks NCCL for: their places and counts, over
// functions that only note them. Arrays of any size: nothing is read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/transport/nccl/nccl_engine.hpp"

namespace sparcl::test {
namespace {

using Result_t = transport::NcclLibrary::Result_t;
using testing::ElementsAre;
using testing::IsEmpty;

struct Noted {
  bool is_send;
  std::uint64_t place;
  std::size_t count;
  int peer;
  bool operator==(const Noted&) const = default;
};
std::vector<Noted> noted;
int open_groups = 0, size_wanted = 0, rank_wanted = 0;
Result_t group_result = transport::NcclLibrary::kSuccess,
         send_result = transport::NcclLibrary::kSuccess;

transport::NcclLibrary noting_library() {
  transport::NcclLibrary made;
  made.version = 22809;
  made.count = [](transport::NcclLibrary::Comm, int* count) -> Result_t {
    return *count = size_wanted, 0;
  };
  made.user_rank = [](transport::NcclLibrary::Comm, int* rank) -> Result_t {
    return *rank = rank_wanted, 0;
  };
  made.device = [](transport::NcclLibrary::Comm, int* device) -> Result_t {
    return *device = 0, 0;
  };
  made.async_error = [](transport::NcclLibrary::Comm, Result_t* error) -> Result_t {
    return *error = 0, 0;
  };
  made.group_start = []() -> Result_t { return ++open_groups, 0; };
  made.group_end = []() -> Result_t { return --open_groups, group_result; };
  made.send = [](const void* from, std::size_t count, int, int peer, transport::NcclLibrary::Comm,
                 void*) -> Result_t {
    noted.push_back({true, reinterpret_cast<std::uintptr_t>(from), count, peer});
    return send_result;
  };
  made.receive = [](void* to, std::size_t count, int, int peer, transport::NcclLibrary::Comm,
                    void*) -> Result_t {
    noted.push_back({false, reinterpret_cast<std::uintptr_t>(to), count, peer});
    return transport::NcclLibrary::kInProgress;  // as a communicator may answer that does not block
  };
  made.error_string = [](Result_t) -> const char* { return "an error"; };
  made.last_error = [](transport::NcclLibrary::Comm) -> const char* { return ""; };
  return made;
}

Status exchange(int rank, int size, std::uint64_t bytes, std::uint64_t piece_bytes) {
  noted.clear();
  size_wanted = size;
  rank_wanted = rank;
  const transport::NcclLibrary library = noting_library();
  const auto engine = transport::NcclEngine::wrap(
      library, reinterpret_cast<transport::NcclLibrary::Comm>(8), rank, size, 0, 1);
  EXPECT_TRUE(engine.ok());
  const Status status = (*engine)->all_to_all(reinterpret_cast<const void*>(0), bytes, piece_bytes,
                                              reinterpret_cast<void*>(0), nullptr);
  EXPECT_EQ(open_groups, 0);
  return status;
}

TEST(NcclPieces, AreCutByCount) {
  EXPECT_TRUE(exchange(1, 3, 40, 16).ok());
  EXPECT_THAT(noted,
              ElementsAre(Noted{true, 0, 16, 0}, Noted{false, 0, 16, 0}, Noted{true, 16, 16, 1},
                          Noted{false, 16, 16, 1}, Noted{true, 32, 8, 2}, Noted{false, 32, 16, 2}));
  EXPECT_TRUE(exchange(2, 3, 40, 16).ok());
  EXPECT_THAT(noted,
              ElementsAre(Noted{true, 0, 16, 0}, Noted{false, 0, 8, 0}, Noted{true, 16, 16, 1},
                          Noted{false, 16, 8, 1}, Noted{true, 32, 8, 2}, Noted{false, 32, 8, 2}));
}

// What is empty neither side asks for.
TEST(NcclPieces, EmptyOnesAreLeftOut) {
  EXPECT_TRUE(exchange(2, 4, 4, 16).ok());
  EXPECT_THAT(noted, ElementsAre(Noted{true, 0, 4, 0}));
  EXPECT_TRUE(exchange(0, 2, 4, 16).ok());
  EXPECT_THAT(noted,
              ElementsAre(Noted{true, 0, 4, 0}, Noted{false, 0, 4, 0}, Noted{false, 16, 4, 1}));
  EXPECT_TRUE(exchange(0, 2, 0, 16).ok());
  EXPECT_THAT(noted, IsEmpty());
}

TEST(NcclPieces, CountsHave64Bits) {
  constexpr std::uint64_t kPiece = std::uint64_t{3} << 32;
  EXPECT_TRUE(exchange(0, 3, 3 * kPiece - 8, kPiece).ok());
  EXPECT_THAT(noted, ElementsAre(Noted{true, 0, kPiece, 0}, Noted{false, 0, kPiece, 0},
                                 Noted{true, kPiece, kPiece, 1}, Noted{false, kPiece, kPiece, 1},
                                 Noted{true, 2 * kPiece, kPiece - 8, 2},
                                 Noted{false, 2 * kPiece, kPiece, 2}));
}

// The first error is told, and the group is ended whatever comes.
TEST(NcclPieces, AGroupIsEnded) {
  send_result = 4;
  EXPECT_THAT(exchange(0, 2, 32, 16).message(), testing::HasSubstr("ncclSend"));
  EXPECT_EQ(noted.size(), 1U);
  send_result = transport::NcclLibrary::kSuccess;
  group_result = 2;
  EXPECT_THAT(exchange(0, 2, 32, 16).message(), testing::HasSubstr("ncclGroupEnd"));
  group_result = transport::NcclLibrary::kInProgress;
  EXPECT_TRUE(exchange(0, 2, 32, 16).ok());
  group_result = transport::NcclLibrary::kSuccess;
}

}  // namespace
}  // namespace sparcl::test
