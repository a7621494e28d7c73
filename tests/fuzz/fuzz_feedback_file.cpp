// A file of error feedback: refused with its path and a reason, or a feedback that is saved and
// loaded again bit for bit.

#include <fmt/format.h>

#include <cstring>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"
#include "src/model/safetensors_header.hpp"
#include "src/sparse/selection/feedback_file.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::fuzz {
namespace {

using sparse::Feedback;

constexpr std::size_t kLengthBytes = 8;  // of the header's length, in front of it

const test::TempFolder& folder() {
  static const test::TempFolder one;
  return one;
}

bool is_equal(const Feedback& a, const Feedback& b) {
  return a.count() == b.count() && a.type() == b.type() && a.least == b.least &&
         std::memcmp(a.residual(), b.residual(), a.residual_bytes()) == 0;
}

void run(std::span<const std::byte> input) {
  const std::string path = folder() / "hostile", copy = folder() / "copy";
  test::write_text(path, text_of(input));
  const Result<Feedback> loaded = sparse::load_feedback(path);
  if (!loaded.ok()) {
    require(loaded.status().message().find(path) != std::string::npos,
            "a refusal names the file: " + loaded.status().message());
    require(loaded.status().code() != Code::kInternalError,
            "a refusal is none of ours: " + loaded.status().message());
    return;
  }
  require(loaded->residual_bytes() < input.size(), "no more is taken than there is");
  require(loaded->stats.calls == 0, "statistics begin anew");
  (void)loaded->residual_l2();
  (void)loaded->threshold();
  require(sparse::save_feedback(*loaded, copy).ok(), "what was loaded can be saved");
  const Result<Feedback> again = sparse::load_feedback(copy);
  require(again.ok() && is_equal(*loaded, *again), "what was saved is loaded bit for bit");
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16,
                              DataType::kInt64, DataType::kFloat8e4m3}) {
    for (const std::uint64_t count : {0, 1, 9}) {
      Result<Feedback> feedback = Feedback::create(count, type);
      for (std::uint64_t i = 0; i < feedback->residual_bytes(); ++i)
        feedback->residual()[i] = static_cast<std::byte>(i * 37);
      feedback->least = count * 1'000'003;
      const std::string path = folder() / "seed";
      require(sparse::save_feedback(*feedback, path).ok(), "a feedback can be saved");
      all.push_back(bytes_of(test::read_text(path)));
    }
  }
  return all;
}

// The hash is made right again, where the header can be read.
void mend(Bytes& file) {
  constexpr std::string_view kKey = "\"xxh3\":\"";
  constexpr std::size_t kDigits = 32;
  if (file.size() < kLengthBytes) return;
  const auto length = load_le<std::uint64_t>(file.data());
  if (length > file.size() - kLengthBytes) return;
  const std::string_view text = text_of(std::span(file).subspan(kLengthBytes, length));
  const Result<model::Header> header = model::parse_header(text);
  const std::size_t at = text.find(kKey);
  if (!header.ok() || at == text.npos || at + kKey.size() + kDigits > text.size()) return;
  std::string type, least;
  for (const auto& [key, value] : header->metadata) {
    if (key == "datatype") type = value;
    if (key == "threshold_key") least = value;
  }
  const auto residual = std::span<const std::byte>(file).subspan(kLengthBytes + length);
  const std::string facts = fmt::format("1 {} {} {};", type, residual.size(), least);
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(facts)));
  hash.update(residual);
  std::memcpy(file.data() + kLengthBytes + at + kKey.size(), to_hex(hash.finish()).data(), kDigits);
}

Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  Bytes bytes = input;
  bytes.resize(input.size() + 32);
  bytes.resize(mutate_bytes(bytes.data(), input.size(), bytes.size()));
  if (random() % 8 == 0) return bytes;
  // The header as long as it says, where most mutations have moved its end.
  const std::string_view text = text_of(bytes);
  const std::size_t end = text.find("}}");
  if (random() % 2 == 0 && bytes.size() >= kLengthBytes && end != text.npos &&
      end + 2 > kLengthBytes) {
    std::size_t behind = text.find('}', end + 2);  // of the tensor, behind that of the metadata
    behind = behind == text.npos ? end + 2 : text.find_first_not_of("} ", behind);
    store_le<std::uint64_t>(bytes.data(), std::min(behind, bytes.size()) - kLengthBytes);
  }
  mend(bytes);
  return bytes;
}

const Registration registration({"feedback_file", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
