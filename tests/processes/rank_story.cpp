#include "tests/processes/rank_story.hpp"

#include <nlohmann/json.hpp>

namespace sparcl::test {

bool poisons(int code) {
  return code == sparclSystemError || code == sparclRemoteError || code == sparclTimeout;
}

const StepRecord* RankStory::error() const {
  for (const StepRecord& step : steps) {
    if (poisons(step.code)) return &step;
  }
  return nullptr;
}

RankStory read_story(std::span<const ProcessLine> lines) {
  RankStory story;
  for (const ProcessLine& line : lines) {
    story.last_line = line.text;
    const auto told = nlohmann::json::parse(line.text, nullptr, false);
    if (!told.is_object()) continue;
    const std::string event = told.value("event", "");
    if (event == "met") {
      story.has_met = true;
      story.init_code = told.value("code", -1);
      story.init_error = told.value("error", "");
      story.met_at_s = line.at_s;
      story.pid = told.value("pid", -1);
    } else if (event == "begin") {
      story.last_begun = told.value("step", -1);
    } else if (event == "step") {
      story.steps.push_back({told.value("step", -1), told.value("epoch", 0), told.value("code", -1),
                             told.value("error", ""), told.value("holds", ""),
                             told.value("hash", ""), told.value("right", false), line.at_s});
    } else if (event == "shrink") {
      story.shrinks.push_back({told.value("code", -1), told.value("error", ""),
                               told.value("rank", -1), told.value("ranks", -1), line.at_s});
    } else if (event == "poisoned") {
      story.failed_ranks.push_back(told.value("failed", -2));
      story.poisoned_right = story.poisoned_right && told.value("right", false);
    } else if (event == "end") {
      story.has_ended = true;
    }
  }
  return story;
}

}  // namespace sparcl::test
