// sparclFileSign and sparclFileVerifySignature, as programs call them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sparcl/file.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::test {
namespace {

namespace fs = std::filesystem;

// The first key of RFC 8032, section 7.1.
constexpr const char* kSecretKey =
    "sparcl-ed25519-secret nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n";
constexpr const char* kPublicKey = "sparcl-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n";

class FileSignatureApi : public ::testing::Test {
 protected:
  FileSignatureApi() {
    write_text(key(), kSecretKey);
    ::chmod(key().c_str(), 0600);
    write_text(trust(), kPublicKey);
    ::chmod(trust().c_str(), 0644);
    fs::create_directory(model());
    write_text(model() + "/model.safetensors", "bytes");
    write_text(model() + "/config.json", "{}");
  }
  std::string key() const { return folder_ / "key"; }
  std::string trust() const { return folder_ / "trust"; }
  std::string model() const { return folder_ / "model"; }
  sparclResult_t refusal(const file::SignatureOptions& options = {}) const {
    try {
      (void)file::verify_signature(model(), trust(), options);
      return sparclSuccess;
    } catch (const Error& error) {
      return error.result();
    }
  }
  TempFolder folder_;
};

TEST_F(FileSignatureApi, SignsAFolderAndRefusesWhatIsNotIt) {
  std::uint64_t last = 0;
  const file::Report made =
      file::sign(model(), key(), {.model_id = "m", .version = 3, .valid_s = 3600},
                 {.on_progress = [&](std::uint64_t done, std::uint64_t total) {
                   EXPECT_EQ(total, 7u);
                   last = done;
                   return sparclSuccess;
                 }});
  EXPECT_EQ(last, 7u);
  EXPECT_EQ(made.files, 2u);
  EXPECT_EQ(made.bytes, 7u);
  EXPECT_EQ(file::verify_signature(model(), trust(), {.model_id = "m", .min_version = 3}).files,
            2u);
  EXPECT_EQ(refusal({.model_id = "other"}), sparclUnauthorized);
  EXPECT_EQ(refusal({.min_version = 4}), sparclUnauthorized);
  EXPECT_EQ(refusal({.trust_threshold = 2}), sparclInvalidArgument);
  EXPECT_EQ(refusal({.signature = folder_ / "none"}), sparclSystemError);
  write_text(model() + "/added.py", "");
  EXPECT_EQ(refusal(), sparclCorrupt);
}

TEST_F(FileSignatureApi, ASignatureExpires) {
  sparclFileSignOptions_t options = SPARCL_FILE_SIGN_OPTIONS_INITIALIZER;
  for (const double wrong : {-1.0, std::nan(""), 1e12}) {
    options.valid_s = wrong;
    EXPECT_EQ(sparclFileSign(model().c_str(), key().c_str(), &options, nullptr),
              sparclInvalidArgument);
    EXPECT_THAT(sparclGetLastError(nullptr), testing::HasSubstr("options.valid_s"));
  }
  const std::string signature = folder_ / "other.sig";
  options.valid_s = 1;
  options.signature = signature.c_str();
  ASSERT_EQ(sparclFileSign(model().c_str(), key().c_str(), &options, nullptr), sparclSuccess);
  EXPECT_EQ(refusal({.signature = signature}), sparclSuccess);
  ::sleep(3);
  EXPECT_EQ(refusal({.signature = signature}), sparclUnauthorized);
  EXPECT_THAT(sparclGetLastError(nullptr), testing::HasSubstr("has expired"));
}

// A call that is cancelled leaves no file behind.
TEST_F(FileSignatureApi, ACancelledCallWritesNothing) {
  EXPECT_THROW(
      file::sign(model(), key(), {},
                 {.on_progress = [](std::uint64_t, std::uint64_t) { return sparclInProgress; }}),
      Error);
  EXPECT_FALSE(fs::exists(model() + ".sparcl-sig"));
}

}  // namespace
}  // namespace sparcl::test
