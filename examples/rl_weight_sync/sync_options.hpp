#pragma once
// The command line of the trainer, and of the workers that it starts.

#include <cstdint>
#include <filesystem>
#include <language_model/model_size.hpp>
#include <string>
#include <vector>

namespace training {

constexpr int kSequences = 16;      // texts that a worker samples at once
constexpr int kNewCharacters = 32;  // that it adds to each prompt, which has as many

struct SyncOptions {
  int workers = 3;
  int steps = 60;
  int pretrain_steps = 200;
  std::string size_name = "tiny";
  float rate = 3e-4F;
  std::string letters = "aeiou";
  std::uint64_t seed = 7;
  std::vector<std::filesystem::path> text;
  std::filesystem::path json;
};

struct WorkerOptions {
  std::string address;  // of the trainer's publisher
  int channel = -1;     // an inherited descriptor
  int parent = 0;       // the trainer's process id
  std::uint64_t stream = 0;
  std::uint64_t seed = 0;
  std::string size_name;
  std::vector<std::filesystem::path> text;
};

}  // namespace training
