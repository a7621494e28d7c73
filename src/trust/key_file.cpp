#include "src/trust/key_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/files/file_reader.hpp"

namespace sparcl::trust {
namespace {

constexpr std::string_view kBlanks = " \t\r";

class OpenFile {
 public:
  // O_NONBLOCK: a named pipe must not hang us.
  explicit OpenFile(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Takes the next word off the front of `line`.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
}

Status too_large(const std::string& path, std::size_t max_bytes) {
  return Status(
      Code::kInvalidArgument,
      fmt::format("{}: it has more than {} bytes, no file of keys does", path, max_bytes));
}

// Reads until the end, or until `out` is full; -1: errno has the reason.
ssize_t read_all(int fd, std::span<char> out) {
  std::size_t got = 0;
  while (got < out.size()) {
    const ssize_t count = ::read(fd, out.data() + got, out.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    got += static_cast<std::size_t>(count);
  }
  return static_cast<ssize_t>(got);
}

}  // namespace

Status prepare_sodium() {
  if (sodium_init() >= 0) return {};  // any thread may call it, any number of times
  return Status(Code::kSystemError, "libsodium does not start here: sodium_init() failed");
}

void KeyFile::Zeroing::operator()(char* text) const {
  sodium_memzero(text, size_bytes);
  delete[] text;
}

Result<KeyFile> KeyFile::read(const std::string& path, std::size_t max_bytes) {
  const OpenFile opened(path);
  if (opened.fd() < 0) return system_error(path, "cannot be opened");
  struct stat about;
  if (::fstat(opened.fd(), &about) != 0) return system_error(path, "cannot be examined");
  if (!S_ISREG(about.st_mode))
    return Status(Code::kInvalidArgument, fmt::format("{}: it is no regular file", path));
  if (about.st_size > static_cast<off_t>(max_bytes)) return too_large(path, max_bytes);
  const std::size_t capacity_bytes = max_bytes + 1;  // it may grow during the read
  KeyFile file(capacity_bytes, about.st_mode & 0777, about.st_uid);
  const ssize_t got = read_all(opened.fd(), {file.text_.get(), capacity_bytes});
  if (got < 0) return system_error(path, "cannot be read");
  file.size_bytes_ = static_cast<std::size_t>(got);
  if (file.size_bytes_ > max_bytes) return too_large(path, max_bytes);
  return file;
}

std::vector<KeyLine> KeyFile::lines() const {
  std::vector<KeyLine> out;
  std::string_view rest(text_.get(), size_bytes_);
  for (std::size_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const std::string_view kind = take_word(line);
    if (kind.empty() || kind.starts_with('#')) continue;
    const std::string_view key = take_word(line);
    out.push_back({number, kind, key, trimmed(line)});
  }
  return out;
}

std::optional<std::string> decode_key(std::string_view text, std::span<std::byte, kKeyBytes> out) {
  if (text.size() != kKeyTextBytes) {
    return fmt::format("the key has {} characters of base64, not {}: it is cut or damaged",
                       text.size(), kKeyTextBytes);
  }
  std::size_t length = 0;
  const int failed =
      sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(),
                        text.size(), nullptr, &length, nullptr, sodium_base64_VARIANT_ORIGINAL);
  if (failed != 0 || length != out.size())
    return fmt::format("the key is not the base64 of {} bytes: it is damaged", out.size());
  return std::nullopt;
}

void encode_key(std::span<const std::byte, kKeyBytes> key, std::span<char, kKeyTextBytes> out) {
  std::array<char, kKeyTextBytes + 1> text;  // libsodium ends it with a zero
  static_assert(sodium_base64_ENCODED_LEN(kKeyBytes, sodium_base64_VARIANT_ORIGINAL) ==
                sizeof text);
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(key.data()),
                    key.size(), sodium_base64_VARIANT_ORIGINAL);
  std::copy_n(text.begin(), out.size(), out.begin());
  sodium_memzero(text.data(), text.size());
}

}  // namespace sparcl::trust
