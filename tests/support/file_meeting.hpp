#pragma once
// Processes that meet by unique ids, without MPI: rank 0 makes each id and leaves it in a folder
// that all know.

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/meeting.hpp"

namespace sparcl::test {

class FileMeeting final : public Meeting {
 public:
  FileMeeting(int rank, int size, std::filesystem::path folder)
      : rank_(rank), size_(size), folder_(std::move(folder)) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool takes_config() const override { return true; }
  bool takes_environment() const override { return true; }
  void meet() override {
    const auto file = [&](int rank) {
      return folder_ / ("here." + std::to_string(meetings_) + "." + std::to_string(rank));
    };
    std::ofstream(file(rank_)).flush();
    for (int rank = 0; rank < size_; ++rank) {
      while (!std::filesystem::exists(file(rank)))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ++meetings_;
  }
  sparclResult_t make(sparclComm_t* comm, int ranks, const sparclConfig_t* config,
                      const Variables& variables) override {
    *comm = nullptr;
    const ScopedVariables scope(variables);
    const std::filesystem::path file = folder_ / ("id." + std::to_string(made_++));
    if (rank_ >= ranks) return sparclSuccess;
    sparclUniqueId id;
    if (rank_ == 0) {
      if (const sparclResult_t made = sparclGetUniqueId(&id); made != sparclSuccess) return made;
      const std::filesystem::path unfinished = file.string() + ".new";
      std::ofstream(unfinished, std::ios::binary).write(id.internal, sizeof id.internal);
      std::filesystem::rename(unfinished, file);
    } else if (!read(file, id)) {
      return sparclTimeout;
    }
    return sparclCommInitRank(comm, ranks, id, rank_, config);
  }

 private:
  static bool read(const std::filesystem::path& file, sparclUniqueId& id) {
    for (int i = 0; i < 60'000; ++i) {
      if (std::ifstream in(file, std::ios::binary); in.read(id.internal, sizeof id.internal))
        return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  int rank_, size_;
  std::filesystem::path folder_;
  int made_ = 0, meetings_ = 0;
};

}  // namespace sparcl::test
