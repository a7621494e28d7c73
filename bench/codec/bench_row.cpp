#include "bench/codec/bench_row.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace sparcl::bench {
namespace {

enum class About { kSize, kSpeed, kOuter };

struct Column {
  About about;
  const char* key;
  const char* heading;
  int width;
  int digits;
};

constexpr Column kColumns[] = {{About::kSize, "bits", "b/chg", 9, 3},
                               {About::kSize, "limit_blind", "blind", 8, 3},
                               {About::kSize, "limit_given_old", "given old", 9, 3},
                               {About::kSize, "over_limit", "ratio", 7, 3},
                               {About::kSize, "of_dense", "of dense", 9, 4},
                               {About::kSpeed, "encode_gbs", "encode", 7, 1},
                               {About::kSpeed, "encode_of_read_two", "of read", 8, 2},
                               {About::kSpeed, "check_gbs", "check", 7, 1},
                               {About::kSpeed, "apply_gbs", "apply", 7, 1},
                               {About::kSpeed, "unchecked_gbs", "direct", 7, 1},
                               {About::kSpeed, "unchecked_of_touched", "of lines", 8, 2},
                               {About::kSpeed, "one_pass_gbs", "one pass", 8, 1},
                               {About::kSpeed, "hash_of_one_pass", "hash", 6, 3},
                               {About::kOuter, "zstd_1", "zstd-1", 7, 4},
                               {About::kOuter, "zstd_3", "zstd-3", 7, 4},
                               {About::kOuter, "zstd_19", "zstd-19", 8, 4}};

bool shown(const Column& column, const std::string& suite) {
  return column.about == About::kSize || (column.about == About::kOuter) == (suite == "outer");
}

}  // namespace

void Report::begin(const Row& about) {
  if (json_) {
    fmt::print("{}\n", about.dump());
    return;
  }
  for (const auto& [key, value] : about.items()) fmt::print("{} {}  ", key, value.dump());
  fmt::print("\n");
}

void Report::title(const std::string& suite, const std::string& what) {
  suite_ = suite;
  input_.clear();
  if (json_) return;
  fmt::print("\n{}: {}\n{:<24} {:<16}", suite, what, "", "kernels");
  for (const Column& column : kColumns) {
    if (shown(column, suite)) fmt::print(" {:>{}}", column.heading, column.width);
  }
  fmt::print("\n");
}

void Report::add(const Row& row) {
  if (json_) {
    Row line = {{"suite", suite_}};
    line.update(row);
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
    return;
  }
  const std::string input = row.value("input", "");
  if (input != input_)
    fmt::print("{} ({} elements, {} changed)\n", input, row.value("elements", 0ULL),
               row.value("changed", 0ULL));
  input_ = input;
  fmt::print("  {:<22} {:<16}", row.value("coder", ""), row.value("kernels", ""));
  for (const Column& column : kColumns) {
    if (!shown(column, suite_)) continue;
    if (row.contains(column.key)) {
      fmt::print(" {:>{}.{}f}", row.at(column.key).get<double>(), column.width, column.digits);
    } else {
      fmt::print(" {:>{}}", "-", column.width);
    }
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void Report::note(const std::string& text) {
  if (json_) {
    fmt::print("{}\n", Row{{"note", text}}.dump());
  } else {
    fmt::print("  {}\n", text);
  }
}

Row size_row(const Input& input, const std::string& coder, std::uint64_t bytes) {
  const auto all = static_cast<double>(bytes);
  Row row = {{"kind", input.kind},
             {"input", input.name},
             {"type", info(input.type).name},
             {"elements", input.elements},
             {"changed", input.limits.changed},
             {"density", input.density()},
             {"coder", coder},
             {"bytes", bytes},
             {"of_dense", all / static_cast<double>(input.bytes())}};
  if (input.limits.changed == 0 || input.fresh) return row;
  const double bits = 8 * all / static_cast<double>(input.limits.changed);
  row["bits"] = bits;
  const Limits& limits = input.limits;
  if (!limits.blind.known) return row;
  row["limit_blind"] = limits.blind.bits();
  row["limit_given_old"] = limits.given_old.bits();
  row["over_blind"] = bits / limits.blind.bits();
  row["over_limit"] = bits / limits.given_old.bits();
  return row;
}

void add_speeds(Row& row, const Input& input, double encode_seconds, double apply_seconds) {
  const auto bytes = static_cast<double>(input.bytes());
  row["encode_gbs"] = bytes / encode_seconds / 1e9;
  row["apply_gbs"] = bytes / apply_seconds / 1e9;
}

void add_times(Row& row, const Input& input, const OwnTimes& times, const char* kernels,
               std::uint64_t touched) {
  const auto bytes = static_cast<double>(input.bytes());
  const auto speed = [&](const char* key, const Samples& samples) {
    if (!samples.empty()) row[key] = bytes / median(samples) / 1e9;
  };
  row["kernels"] = kernels;
  row["rounds"] = times.read_one.size();
  speed("read_one_gbs", times.read_one);
  speed("read_two_gbs", times.read_two);
  speed("diff_gbs", times.diff);
  speed("encode_gbs", times.encode);
  speed("encode_plain_gbs", times.encode_plain);
  speed("check_gbs", times.check);
  speed("apply_gbs", times.apply);
  speed("one_pass_gbs", times.one_pass);
  speed("unchecked_gbs", times.unchecked);
  row["diff_of_read_two"] = paired_ratio(times.read_two, times.diff);
  row["encode_of_read_two"] = paired_ratio(times.read_two, times.encode);
  row["encode_of_read_one"] = paired_ratio(times.read_one, times.encode);
  row["unchecked_of_read_one"] = paired_ratio(times.read_one, times.unchecked);
  row["one_pass_of_read_one"] = paired_ratio(times.read_one, times.one_pass);
  row["touched"] = static_cast<double>(touched) / bytes;
  const double share =
      2 * static_cast<double>(touched) / bytes;  // each of these lines is read, and written back
  row["apply_of_touched"] = share * paired_ratio(times.read_one, times.apply);
  row["one_pass_of_touched"] = share * paired_ratio(times.read_one, times.one_pass);
  row["unchecked_of_touched"] = share * paired_ratio(times.read_one, times.unchecked);
  row["hash_of_encode"] = paired_ratio(times.hash, times.encode);
  row["hash_of_one_pass"] = paired_ratio(times.hash, times.one_pass);
  if (!times.encode_plain.empty())
    row["encode_hash_cost"] = paired_ratio(times.encode, times.encode_plain) - 1;
}

}  // namespace sparcl::bench
