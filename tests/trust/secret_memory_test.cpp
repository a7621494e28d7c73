// What is left of a secret in this process once its key is gone: nothing. The test looks at all of
// its own memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sodium.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <latch>
#include <optional>
#include <thread>
#include <vector>

#include "src/trust/signing_key.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::trust {
namespace {

constexpr unsigned char kMask = 0xa5;
constexpr std::size_t kLargestRange = std::size_t{256}
                                      << 20;  // sanitizers map more than can be read
constexpr std::size_t kPiece = std::size_t{1} << 20;

// Bytes to look for, masked: so that they are not themselves what is found.
using Needle = std::vector<unsigned char>;

Needle masked(std::span<unsigned char> bytes) {
  Needle out;
  for (unsigned char& byte : bytes) {
    out.push_back(byte ^ kMask);
    byte = 0;
  }
  return out;
}

bool is_at(const unsigned char* at, const Needle& needle) {
  for (std::size_t i = 0; i < needle.size(); ++i) {
    if ((at[i] ^ kMask) != needle[i]) return false;
  }
  return true;
}

std::size_t count_in(const std::vector<unsigned char>& bytes, const Needle& needle) {
  std::size_t count = 0;
  for (std::size_t i = 0; i + needle.size() <= bytes.size(); ++i)
    count += is_at(bytes.data() + i, needle) ? 1 : 0;
  return count;
}

struct Range {
  std::uint64_t begin, end;
};

std::vector<Range> writable_memory() {
  std::vector<Range> out;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Range range{};
    char access[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &range.begin, &range.end, access) != 3) continue;
    if (access[0] == 'r' && access[1] == 'w' && range.end - range.begin <= kLargestRange)
      out.push_back(range);
  }
  return out;
}

std::size_t copies_in_memory(const Needle& needle) {
  const int memory = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  std::size_t count = 0;
  std::vector<unsigned char> piece(kPiece + needle.size() -
                                   1);  // pieces overlap by what a copy may reach across
  for (const Range& range : writable_memory()) {
    for (std::uint64_t at = range.begin; at < range.end; at += kPiece) {
      piece.resize(std::min<std::uint64_t>(kPiece + needle.size() - 1, range.end - at));
      const ssize_t got = ::pread(memory, piece.data(), piece.size(), static_cast<off_t>(at));
      if (got != static_cast<ssize_t>(piece.size())) continue;
      const std::size_t found = count_in(piece, needle);
      if (found != 0)
        sodium_memzero(piece.data(), piece.size());  // or the piece would be found in its turn
      count += found;
    }
  }
  sodium_memzero(piece.data(), piece.capacity());
  ::close(memory);
  return count;
}

// The text in the file, and the seed that it says.
std::array<Needle, 2> secrets_in(const std::string& path) {
  std::array<unsigned char, 128> text{};
  std::array<unsigned char, 32> seed{};
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = ::read(fd, text.data(), text.size());
  ::close(fd);
  constexpr std::size_t kBefore = sizeof "sparcl-ed25519-secret " - 1;
  EXPECT_EQ(got, static_cast<ssize_t>(kBefore + 44 + 1));
  EXPECT_EQ(sodium_base642bin(seed.data(), seed.size(),
                              reinterpret_cast<const char*>(text.data()) + kBefore, 44, nullptr,
                              nullptr, nullptr, sodium_base64_VARIANT_ORIGINAL),
            0);
  std::array<Needle, 2> out{masked(std::span(text).subspan(kBefore, 44)), masked(seed)};
  // Half of it: lists of free memory cover the fronts of its pieces.
  for (Needle& needle : out)
    needle.erase(needle.begin(), needle.begin() + static_cast<std::ptrdiff_t>(needle.size() / 2));
  return out;
}

// Does its work in a thread of its own, which then stands still as long as this lives: its stack
// and heap are as the work left them.
class Elsewhere {
 public:
  template <class Work>
  explicit Elsewhere(Work work)
      : thread_([this, work] {
          deep(work);
          done_.count_down();
          over_.wait();
        }) {
    done_.wait();
  }
  ~Elsewhere() {
    over_.count_down();
    thread_.join();
  }

 private:
  // Deeper in the stack than what follows the work, which would cover its traces.
  template <class Work>
  [[gnu::noinline]] static void deep(Work& work) {
    std::array<char, 32 << 10> room;
    asm volatile("" : : "r"(room.data()) : "memory");
    work();
    asm volatile("" : : "r"(room.data()) : "memory");
  }

  std::latch done_{1}, over_{1};
  std::thread thread_;
};

TEST(SecretMemory, HoldsNothingOnceTheKeyIsGone) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "skipped: it reads all memory of the process, of which this sanitizer maps terabytes";
#endif
  const TempFolder folder;
  const std::string path = folder / "key";
  std::optional<SigningKey> key;
  const Elsewhere making([&] {
    Result<SigningKey> made = SigningKey::generate();
    ASSERT_TRUE(made.ok());
    key = std::move(*made);
  });
  const Elsewhere saving([&] { ASSERT_TRUE(key->save(path).ok()); });
  const auto [text, seed] = secrets_in(path);
  EXPECT_EQ(copies_in_memory(seed), 1u) << "the key itself: the search finds what is there";
  EXPECT_EQ(copies_in_memory(text), 0u) << "after saving";
  key.reset();
  EXPECT_EQ(copies_in_memory(seed), 0u) << "after making and saving";
  const Elsewhere loading([&] {
    Result<SigningKey> loaded = SigningKey::load(path);
    ASSERT_TRUE(loaded.ok());
    key = std::move(*loaded);
  });
  const Elsewhere signing([&] { (void)key->sign(from_hex("010203")); });
  EXPECT_EQ(copies_in_memory(seed), 1u) << "while it is held";
  EXPECT_EQ(copies_in_memory(text), 0u) << "after loading";
  key.reset();
  EXPECT_EQ(copies_in_memory(seed), 0u) << "after loading and signing";
}

}  // namespace
}  // namespace sparcl::trust
