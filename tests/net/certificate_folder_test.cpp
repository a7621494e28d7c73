// Folders of certificates: what is read, and what is refused by name.

#include "src/net/certificate_folder.hpp"

#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include "tests/model/model_support.hpp"
#include "tests/support/test_authority.hpp"

namespace sparcl::net {
namespace {

using test::CertificateTerms;
using test::TestAuthority;
using ::testing::AllOf;
using ::testing::HasSubstr;

class CertificateFolderTest : public testing::Test {
 protected:
  CertificateFolderTest() { authority_.write(path_, "publish"); }
  std::string fault() const { return CertificateFolder(path_).load().status().message(); }
  std::string file(const char* name) const { return path_ + "/" + name; }

  const TestAuthority authority_;
  const test::TempFolder temporary_;
  const std::string path_ = temporary_ / "own";
};

TEST_F(CertificateFolderTest, HoldsAuthoritiesAChainAndItsKey) {
  TestAuthority::replace(file("ca.crt"), authority_.text() + TestAuthority("second").text(), 0644);
  const std::string own = test::read_text(file("tls.crt"));
  TestAuthority::replace(file("tls.crt"), "a comment\n" + own + authority_.text(), 0644);
  const Result<Certificates> read = CertificateFolder(path_).load();
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->authorities.size(), 2u);
  EXPECT_EQ(read->chain.size(), 2u);
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  const Status installed = read->install(context.get());
  EXPECT_TRUE(installed.ok()) << installed.message();
}

TEST_F(CertificateFolderTest, AMissingFileIsNamed) {
  for (const char* name : {"ca.crt", "tls.crt", "tls.key"}) {
    const std::string text = test::read_text(file(name));
    std::filesystem::remove(file(name));
    EXPECT_THAT(fault(), AllOf(HasSubstr(file(name)), HasSubstr("ca.crt, tls.crt and tls.key")));
    TestAuthority::replace(file(name), text, 0600);
  }
  EXPECT_EQ(fault(), "");
}

TEST_F(CertificateFolderTest, DamagedFilesAreRefused) {
  const std::string own = test::read_text(file("tls.crt"));
  for (const char* name : {"ca.crt", "tls.crt"}) {
    for (const std::string& text : {std::string(), std::string("no PEM\n")}) {
      TestAuthority::replace(file(name), text, 0644);
      EXPECT_THAT(fault(), AllOf(HasSubstr(file(name)), HasSubstr("no certificate")));
    }
    std::string cut = own + own;
    cut.resize(own.size() + own.size() / 2);
    TestAuthority::replace(file(name), cut, 0644);
    EXPECT_THAT(fault(), AllOf(HasSubstr(file(name)), HasSubstr("certificate 2 is damaged")));
    TestAuthority::replace(file(name), std::string(300'000, 'x'), 0644);
    EXPECT_THAT(fault(), HasSubstr("more than 262144 bytes"));
    TestAuthority::replace(file(name), own, 0644);
  }
  TestAuthority::replace(file("tls.key"), own, 0600);
  EXPECT_THAT(fault(), HasSubstr("no private key"));
}

TEST_F(CertificateFolderTest, AKeyOfAnotherCertificateIsRefused) {
  const std::string key = test::read_text(file("tls.key"));
  authority_.write(path_, "publish");
  TestAuthority::replace(file("tls.key"), key, 0600);
  EXPECT_THAT(fault(), AllOf(HasSubstr("tls.key"), HasSubstr("not the key of the first")));
}

// And no pass phrase is asked for.
TEST_F(CertificateFolderTest, AKeyWithAPassPhraseIsRefused) {
  const std::shared_ptr<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::shared_ptr<BIO> bio(BIO_new(BIO_s_mem()), BIO_free);
  unsigned char phrase[] = "secret";
  ASSERT_EQ(PEM_write_bio_PrivateKey(bio.get(), key.get(), EVP_aes_128_cbc(), phrase, 6, nullptr,
                                     nullptr),
            1);
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &data);
  TestAuthority::replace(file("tls.key"), std::string(data, static_cast<std::size_t>(bytes)), 0600);
  EXPECT_THAT(fault(), HasSubstr("has a pass phrase"));
}

// A key that root has put there may be readable by its group; any other one is for its owner.
TEST_F(CertificateFolderTest, FilesThatOthersMayReadOrChangeAreRefused) {
  const bool is_root = ::geteuid() == 0;
  const struct {
    mode_t mode;
    uid_t owner;
    bool is_sound;
  } kKeys[] = {{0600, 0, true},     {0400, 0, true},     {0440, 0, true},    {0640, 0, true},
               {0660, 0, false},    {0644, 0, false},    {0604, 0, false},   {0600, 1234, true},
               {0640, 1234, false}, {0644, 1234, false}, {0660, 1234, false}};
  for (const auto& each : kKeys) {
    if (!is_root && each.owner == 0 && each.mode != 0600 && each.is_sound) continue;
    ASSERT_EQ(::chmod(file("tls.key").c_str(), each.mode), 0);
    if (is_root) {
      ASSERT_EQ(::chown(file("tls.key").c_str(), each.owner, 0), 0);
    }
    EXPECT_EQ(fault().empty(), each.is_sound) << each.mode << " " << each.owner << fault();
    if (!each.is_sound) {
      EXPECT_THAT(fault(), AllOf(HasSubstr("chmod 600"), HasSubstr("defaultMode")));
    }
  }
  ASSERT_EQ(::chmod(file("tls.key").c_str(), 0600), 0);
  for (const char* name : {"ca.crt", "tls.crt"}) {
    ASSERT_EQ(::chmod(file(name).c_str(), 0646), 0);
    EXPECT_THAT(fault(), AllOf(HasSubstr(file(name)), HasSubstr("every user may change")));
    ASSERT_EQ(::chmod(file(name).c_str(), 0644), 0);
  }
}

TEST_F(CertificateFolderTest, AnExpiredCertificateIsRefused) {
  authority_.write(path_, CertificateTerms{"publish", -7200, -60});
  const Status status = CertificateFolder(path_).load().status();
  EXPECT_EQ(status.code(), Code::kUnauthorized);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("/CN=publish, serial "), HasSubstr("has expired at "),
                    HasSubstr(" UTC"), HasSubstr("renew it")));
}

// As Kubernetes mounts a secret: files are links through ..data, which is replaced at once.
TEST_F(CertificateFolderTest, TheMarkSeesReplacedLinks) {
  namespace fs = std::filesystem;
  const std::string volume = temporary_ / "volume";
  authority_.write(volume + "/..1", "publish");
  authority_.write(volume + "/..2", "publish");
  fs::create_symlink("..1", volume + "/..data");
  for (const char* name : {"ca.crt", "tls.crt", "tls.key"})
    fs::create_symlink(std::string("..data/") + name, volume + "/" + name);
  const CertificateFolder folder(volume);
  EXPECT_TRUE(folder.load().ok());
  const CertificateFolder::Mark before = folder.mark();
  EXPECT_EQ(folder.mark(), before);
  fs::create_symlink("..2", volume + "/..next");
  fs::rename(volume + "/..next", volume + "/..data");
  EXPECT_NE(folder.mark(), before);
  EXPECT_TRUE(folder.load().ok());
}

}  // namespace
}  // namespace sparcl::net
