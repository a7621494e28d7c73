// Files of more than 4 GiB, with holes where nothing changes.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>

#include "tests/support/tier.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

constexpr std::uint64_t kFourGi = std::uint64_t{1} << 32;
constexpr std::uint64_t kElements = kFourGi + 70'000;
constexpr std::uint64_t kChanged[] = {0,       65'536,           kFourGi / 2,  kFourGi - 1,
                                      kFourGi, kFourGi + 65'536, kElements - 1};

std::string header() {
  std::string text =
      R"({"small":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},"large":{"dtype":"U8","shape":[)" +
      std::to_string(kElements) + R"(],"data_offsets":[6,)" + std::to_string(kElements + 6) + "]}}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

// All zeros but for `large` at kChanged, where it holds `value`.
void write_sparse_file(const std::string& path, char value) {
  const std::string text = header();
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t length = text.size();
  for (unsigned i = 0; i < 8; ++i) file.put(static_cast<char>(length >> (8 * i)));
  file << text;
  file.close();
  const std::uint64_t first = 8 + length + 6;
  fs::resize_file(path, first + kElements);
  std::fstream holes(path, std::ios::binary | std::ios::in | std::ios::out);
  for (const std::uint64_t index : kChanged) {
    holes.seekp(static_cast<std::streamoff>(first + index));
    holes.put(value);
  }
  ASSERT_TRUE(holes.flush().good());
}

TEST(LargeFiles, DiffAndApplyReachPastFourGigabytes) {
  if (!long_tier()) GTEST_SKIP() << "reads and writes files of 4 GiB: in the long tier";
  TempFolder folder;
  if (fs::space(folder / "").available < 3 * kElements)
    GTEST_SKIP() << "no room for files of 4 GiB";
  const std::string base = folder / "base", target = folder / "target", delta = folder / "delta",
                    out = folder / "out";
  write_sparse_file(base, 0);
  write_sparse_file(target, 7);
  const ProgramRun diff = run_program({"diff", base, target, "-o", delta, "--json"});
  ASSERT_EQ(diff.exit_code, 0) << diff.err;
  EXPECT_EQ(diff.json()["changed"], std::size(kChanged));
  EXPECT_EQ(diff.json()["elements"], kElements + 3);
  EXPECT_LT(fs::file_size(delta), 2'000u);

  const ProgramRun apply = run_program({"apply", base, delta, "-o", out, "--json"});
  ASSERT_EQ(apply.exit_code, 0) << apply.err;
  EXPECT_EQ(apply.json()["target_hash"], diff.json()["target_hash"]);
  ASSERT_EQ(fs::file_size(out), fs::file_size(target));
  const ProgramRun inspect = run_program({"inspect", out, "--json"});
  ASSERT_EQ(inspect.exit_code, 0) << inspect.err;
  EXPECT_EQ(inspect.json()["state_hash"], diff.json()["target_hash"]);
}

}  // namespace
}  // namespace sparcl::test
