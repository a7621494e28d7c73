#include "src/base/caught_error.hpp"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace sparcl {
namespace {

template <class Exception>
Status caught(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return caught_error("a thing could not be done", Scope::kComm);
  }
}

TEST(CaughtError, SaysWhatCouldNotBeDoneAndWhy) {
  const Status memory = caught(std::bad_alloc());
  EXPECT_EQ(memory.code(), Code::kOutOfMemory);
  EXPECT_EQ(memory.scope(), Scope::kComm);
  EXPECT_NE(memory.message().find("a thing could not be done"), std::string::npos)
      << memory.message();

  const Status system = caught(std::system_error(EAGAIN, std::generic_category()));
  EXPECT_EQ(system.code(), Code::kSystemError);
  EXPECT_NE(system.message().find("temporarily unavailable"), std::string::npos)
      << system.message();

  EXPECT_EQ(caught(std::logic_error("why")).code(), Code::kInternalError);
  EXPECT_NE(caught(std::logic_error("why")).message().find("why"), std::string::npos);
  EXPECT_EQ(caught(7).code(), Code::kInternalError);
}

}  // namespace
}  // namespace sparcl
