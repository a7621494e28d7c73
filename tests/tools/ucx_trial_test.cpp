// UCX that ends its process while `sparcl info` tries it out: the program goes on, and says so.

#include "tools/sparcl/ucx_trial.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <new>

namespace sparcl::tool {
namespace {

Status after(Status (*try_out)()) {
  transport::UcxPlugin plugin{};
  plugin.try_out = try_out;
  return try_out_ucx(plugin);
}

TEST(UcxTrial, SaysWhatItsChildHasFound) {
  EXPECT_TRUE(after([] { return Status(); }).ok());
  const Status refused = after([] { return Status(Code::kSystemError, "no device"); });
  EXPECT_EQ(refused.message(), "no device");
  const Status no_memory = after([]() -> Status { throw std::bad_alloc(); });
  EXPECT_NE(no_memory.message().find("out of memory"), std::string::npos) << no_memory.message();
}

TEST(UcxTrial, OutlivesAnEndOfUcx) {
  const Status aborted = after([]() -> Status { std::abort(); });
  EXPECT_EQ(aborted.code(), Code::kSystemError);
  EXPECT_NE(aborted.message().find("by signal 6"), std::string::npos) << aborted.message();
  const Status killed = after([]() -> Status {
    (void)std::raise(SIGKILL);
    return {};
  });
  EXPECT_NE(killed.message().find("by signal 9"), std::string::npos) << killed.message();
}

}  // namespace
}  // namespace sparcl::tool
