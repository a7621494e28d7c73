// Headers with the verdicts of the reference package and of sparcl, as scripts/compare-safetensors
// --corpus wrote them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "src/model/safetensors_header.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::model {
namespace {

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; hex != "-" && i + 1 < hex.size(); i += 2)
    text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return text;
}

TEST(SafetensorsCorpus, VerdictsAreThoseOfTheReferencePackageButForDeliberateDifferences) {
  std::ifstream file(test::tree() / "tests/model/safetensors_corpus.txt");
  int accepted_by_both = 0, refused_by_both = 0, differ = 0;
  std::string hex;
  std::uint64_t bytes = 0;
  bool is_ours = false, is_theirs = false;
  while (file >> hex >> bytes >> is_ours >> is_theirs) {
    const std::string text = from_hex(hex);
    const Result<Header> header = parse_header(text);
    EXPECT_EQ(header.ok() && header->data_bytes == bytes && validate(header->tensors).ok(), is_ours)
        << text;
    EXPECT_EQ(header.status().message().empty(), header.ok()) << text;
    (is_ours != is_theirs ? differ : is_ours ? accepted_by_both : refused_by_both)++;
  }
  EXPECT_GE(accepted_by_both, 40);
  EXPECT_GE(refused_by_both, 40);
  EXPECT_GE(differ, 40);
}

}  // namespace
}  // namespace sparcl::model
