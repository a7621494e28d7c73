#pragma once
// What a rank of the rank program told, line by line.

#include <span>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/support/process_party.hpp"

namespace sparcl::test {

struct StepRecord {
  int step = -1;
  int epoch = 0;  // how often the communicator had shrunk
  int code = 0;
  std::string error, holds, hash;
  bool right = false;
  double at_s = 0;
};

struct ShrinkRecord {
  int code = 0;
  std::string error;
  int rank = -1, ranks = -1;  // in the new communicator
  double at_s = 0;
};

struct RankStory {
  bool has_met = false;  // the init returned, with success or not
  int init_code = -1;
  std::string init_error;
  double met_at_s = 0;
  int pid = -1;
  int last_begun = -1;  // step; -1: none
  std::vector<StepRecord> steps;
  std::vector<ShrinkRecord> shrinks;
  std::vector<int> failed_ranks;  // of each error that poisons
  bool poisoned_right = true;     // what came after the error
  bool has_ended = false;         // destroyed its communicator
  std::string last_line;

  const StepRecord* error() const;  // the first step whose error poisons the communicator
};

bool poisons(int code);
RankStory read_story(std::span<const ProcessLine> lines);

}  // namespace sparcl::test
