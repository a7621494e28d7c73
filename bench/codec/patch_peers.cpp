// Peers that make a patch of two files without knowing what they are.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/codec/bench_timing.hpp"
#include "bench/codec/peer_codecs.hpp"
#include "bench/codec/zstd_parts.hpp"

extern char** environ;

namespace sparcl::bench {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{32} << 20;

// As `zstd --patch-from` sets it up: the base as a prefix, a window over both, long-distance
// matching.
Bytes encode_zstd_patch(const Input& input) {
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                        ZSTD_freeCCtx);
  const int window_log = std::max<int>(18, std::bit_width(2 * input.bytes()));
  zstd_checked(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, 3));
  zstd_checked(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_enableLongDistanceMatching, 1));
  zstd_checked(ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, window_log));
  zstd_checked(ZSTD_CCtx_refPrefix(context.get(), input.base.data(), input.bytes()));
  Bytes out(ZSTD_compressBound(input.bytes()));
  out.resize(zstd_checked(
      ZSTD_compress2(context.get(), out.data(), out.size(), input.target.data(), input.bytes())));
  return out;
}

void apply_zstd_patch(const Input& input, const Bytes& bytes, std::byte* held) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(),
                                                                        ZSTD_freeDCtx);
  zstd_checked(ZSTD_DCtx_setParameter(context.get(), ZSTD_d_windowLogMax, 31));
  zstd_checked(ZSTD_DCtx_refPrefix(context.get(), held, input.bytes()));
  Bytes target(input.bytes());  // the prefix must stay as it is meanwhile
  zstd_checked(
      ZSTD_decompressDCtx(context.get(), target.data(), target.size(), bytes.data(), bytes.size()));
  std::memcpy(held, target.data(), target.size());
}

// Processor time of the programs that this one ran, and its own.
double children_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// False if it could not be run or failed.
bool run_program(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  return failed == 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bench_codec.XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void write_file(const std::string& path, const std::byte* bytes, std::size_t count) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(count));
}

Bytes read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  Bytes bytes(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

// A program that fails leaves an empty file behind: the comparison with the target then fails.
Bytes encode_xdelta(const Input& input) {
  const Folder folder;
  write_file(folder.file("base"), input.base.data(), input.bytes());
  write_file(folder.file("target"), input.target.data(), input.bytes());
  run_program({"xdelta3", "-e", "-f", "-B", std::to_string(kMaxBytes), "-s", folder.file("base"),
               folder.file("target"), folder.file("patch")});
  return read_file(folder.file("patch"));
}

void apply_xdelta(const Input& input, const Bytes& bytes, std::byte* held) {
  const Folder folder;
  write_file(folder.file("base"), held, input.bytes());
  write_file(folder.file("patch"), bytes.data(), bytes.size());
  run_program({"xdelta3", "-d", "-f", "-B", std::to_string(kMaxBytes), "-s", folder.file("base"),
               folder.file("patch"), folder.file("target")});
  const Bytes target = read_file(folder.file("target"));
  std::memcpy(held, target.data(), std::min(target.size(), input.bytes()));
}

}  // namespace

std::vector<PeerCodec> patch_peers(std::string& why_none) {
  std::vector<PeerCodec> peers;
  peers.push_back(
      {"zstd --patch-from, -3",
       [](const Input& input, const kernels::KernelSet&) { return encode_zstd_patch(input); },
       apply_zstd_patch, kMaxBytes, 1});
  if (!run_program({"xdelta3", "-V"})) {
    why_none = "xdelta3: skipped, the program is not installed (Debian: apt-get install xdelta3)";
    return peers;
  }
  peers.push_back(
      {"xdelta3, the program",
       [](const Input& input, const kernels::KernelSet&) { return encode_xdelta(input); },
       apply_xdelta, kMaxBytes, 1, children_seconds});
  return peers;
}

}  // namespace sparcl::bench
