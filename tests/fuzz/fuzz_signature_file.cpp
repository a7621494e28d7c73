// A signature file: refused, or exactly what its content is written as, with names that stay inside
// the folder.

#include <string>

#include "src/model/files/signed_files.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

std::string text_of(std::span<const std::byte> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

void run(std::span<const std::byte> input) {
  const Result<model::SignatureFile> file = model::parse_signature_file(text_of(input), "input");
  if (!file.ok()) return require(file.status().code() == Code::kCorrupt, "it is Corrupt");
  const std::string again = model::serialise(file->statement);
  require(text_of(input).starts_with(again), "a statement has one text");
  require(!file->signatures.empty() && file->signatures.size() <= trust::kMaxSignatures,
          "some keys have signed");
  for (const model::SignedFile& each : file->statement.files)
    require(
        !each.name.starts_with('/') && ("/" + each.name + "/").find("/../") == std::string::npos,
        "a name stays inside the folder");
}

std::vector<Bytes> seeds() {
  model::SignedStatement statement;
  statement.files = {{"a/b", 7, {}}, {"c", 0, {}}};
  const std::string signature =
      "signature " + trust::public_key_line({}) + " " + std::string(128, '0') + "\n";
  std::vector<Bytes> all;
  for (const model::SignedFacts& facts :
       {model::SignedFacts{}, model::SignedFacts{"policy", 12, 1'000}}) {
    statement.facts = facts;
    const std::string text = model::serialise(statement) + signature;
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

const Registration registration({"signature_file", run, seeds, nullptr});

}  // namespace
}  // namespace sparcl::fuzz
