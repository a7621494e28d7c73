// One rank of the table of mismatches, a process that meets the others by unique ids: mismatch_rank
// RANK RANKS FOLDER Exit codes: 0 all as it must be; 1 not, and standard output says what; 2 wrong
// usage.

#include <cstdio>
#include <cstdlib>

#include "tests/mismatch/mismatch_run.hpp"
#include "tests/support/file_meeting.hpp"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  sparcl::test::FileMeeting meeting(std::atoi(argv[1]), std::atoi(argv[2]), argv[3]);
  const std::string wrong = describe(sparcl::test::run_mismatch_table(meeting));
  if (wrong.empty()) return 0;
  std::printf("%s\n", wrong.c_str());
  return 1;
}
