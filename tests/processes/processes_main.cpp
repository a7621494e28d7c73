#include <gtest/gtest.h>

#include "tests/processes/rank_party.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const std::string reason = sparcl::test::look_for_files_left(); !reason.empty()) {
    std::printf("files left in /dev/shm are not looked for (%s)\n", reason.c_str());
  }
  return RUN_ALL_TESTS();
}
