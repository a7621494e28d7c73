#pragma once
// One measurement as a line: a table for people, JSON for machines. All of a row's figures are in
// the JSON, the table has the main ones.

#include <nlohmann/json.hpp>
#include <string>

#include "bench/codec/bench_data.hpp"
#include "bench/codec/own_codec.hpp"

namespace sparcl::bench {

using Row = nlohmann::ordered_json;

class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  // Facts that hold for all rows: commit, machine, time.
  void begin(const Row& about);
  void title(const std::string& suite, const std::string& what);
  void add(const Row& row);
  void note(const std::string& text);

 private:
  bool json_;
  std::string suite_;
  std::string input_;
};

// The input and its coded size.
Row size_row(const Input& input, const std::string& coder, std::uint64_t bytes);
// Adds speeds, and their shares of the memory limits. Speeds are GB/s of the dense array.
void add_times(Row& row, const Input& input, const OwnTimes& times, const char* kernels,
               std::uint64_t touched);
void add_speeds(Row& row, const Input& input, double encode_seconds, double apply_seconds);

}  // namespace sparcl::bench
