#include "src/trust/trusted_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trust/key_support.hpp"

namespace sparcl::trust {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Trust : public ::testing::Test {
 protected:
  std::string file(std::string_view text) const {
    write_text(folder_ / "trust", text);
    return folder_ / "trust";
  }
  TrustedKeys keys(std::string_view text) const {
    const Result<TrustedKeys> loaded = TrustedKeys::load(file(text));
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return *loaded;
  }
  // The text with which a file is refused.
  std::string refusal(std::string_view text, Code code = Code::kInvalidArgument) const {
    const Status status = TrustedKeys::load(file(text)).status();
    EXPECT_EQ(status.code(), code);
    return status.message();
  }
  TempFolder folder_;
};

TEST_F(Trust, AcceptsTheSignaturesOfRfc8032) {
  std::string lines;
  for (const Vector& vector : kVectors) lines += public_line(vector);
  const TrustedKeys trusted = keys(lines);
  EXPECT_EQ(trusted.count(), kVectors.size());
  for (const Vector& vector : kVectors) {
    const Status verified = trusted.verify(
        from_hex(vector.message),
        {{array_from_hex<PublicKey>(vector.key), array_from_hex<Signature>(vector.signature)}});
    EXPECT_TRUE(verified.ok()) << vector.name << ": " << verified.message();
  }
}

TEST_F(Trust, ReadsTheFileThatSavingMade) {
  const Result<SigningKey> key = SigningKey::generate();
  ASSERT_TRUE(key.ok() && key->save(folder_ / "key").ok());
  const Result<TrustedKeys> trusted = TrustedKeys::load(folder_ / "key.pub");
  ASSERT_TRUE(trusted.ok()) << trusted.status().message();
  EXPECT_TRUE(
      trusted->verify(bytes_of("commit 7"), {{key->public_key(), key->sign(bytes_of("commit 7"))}})
          .ok());
}

TEST_F(Trust, RefusesEveryFlippedBit) {
  const SigningKey key = key_of(kVectors[0]);
  const TrustedKeys trusted = keys(public_line(kVectors[0]));
  const std::string message = "version 3 follows version 2";
  const Signature signature = key.sign(bytes_of(message));
  ASSERT_TRUE(trusted.verify(bytes_of(message), {{key.public_key(), signature}}).ok());
  for (std::size_t bit = 0; bit < 8 * signature.size(); ++bit) {
    Signature flipped = signature;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    EXPECT_EQ(trusted.verify(bytes_of(message), {{key.public_key(), flipped}}).code(),
              Code::kUnauthorized)
        << bit;
  }
  for (std::size_t bit = 0; bit < 8 * message.size(); ++bit) {
    std::string flipped = message;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(trusted.verify(bytes_of(flipped), {{key.public_key(), signature}}).code(),
              Code::kUnauthorized)
        << bit;
  }
  for (const std::string& other : {std::string(), message.substr(1), message + '\0'})
    EXPECT_EQ(trusted.verify(bytes_of(other), {{key.public_key(), signature}}).code(),
              Code::kUnauthorized)
        << other;
}

// S and S + L verify the same where nobody looks: one commit would have two signatures.
TEST_F(Trust, RefusesTheOtherFormOfASignature) {
  const SigningKey key = key_of(kVectors[0]);
  const TrustedKeys trusted = keys(public_line(kVectors[0]));
  const auto order = from_hex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  Signature signature = key.sign(bytes_of("m"));
  unsigned carry = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    carry += std::to_integer<unsigned>(signature[32 + i]) + std::to_integer<unsigned>(order[i]);
    signature[32 + i] = static_cast<std::byte>(carry & 0xff);
    carry >>= 8;
  }
  ASSERT_EQ(carry, 0u);
  EXPECT_EQ(trusted.verify(bytes_of("m"), {{key.public_key(), signature}}).code(),
            Code::kUnauthorized);
}

TEST_F(Trust, SaysWhichKeyIsUnknownAndWhichSignatureIsWrong) {
  const SigningKey known = key_of(kVectors[0]), unknown = key_of(kVectors[1]);
  const TrustedKeys trusted = keys("# the trainer\n" + public_line(kVectors[0]));
  const Status stranger =
      trusted.verify(bytes_of("m"), {{unknown.public_key(), unknown.sign(bytes_of("m"))}});
  EXPECT_EQ(stranger.code(), Code::kUnauthorized);
  EXPECT_THAT(stranger.message(),
              AllOf(HasSubstr("by the key " + fingerprint(unknown.public_key())),
                    HasSubstr("not among the 1 of " + (folder_ / "trust")),
                    Not(HasSubstr("over these bytes"))));
  // Signed by the stranger in the known key's name.
  const Status forged =
      trusted.verify(bytes_of("m"), {{known.public_key(), unknown.sign(bytes_of("m"))}});
  EXPECT_EQ(forged.code(), Code::kUnauthorized);
  EXPECT_THAT(forged.message(),
              AllOf(HasSubstr("not one by the key " + fingerprint(known.public_key())),
                    HasSubstr("line 2 of " + (folder_ / "trust")), Not(HasSubstr("not among"))));
}

// So many different trusted keys must have signed; a stranger's signature does no harm.
TEST_F(Trust, WantsAsManySignaturesAsTheThreshold) {
  const std::string path = file(public_line(kVectors[0]) + public_line(kVectors[1]));
  const Result<TrustedKeys> both = TrustedKeys::load(path, 2);
  ASSERT_TRUE(both.ok()) << both.status().message();
  const auto by = [](std::initializer_list<int> which) {
    Signatures made;
    for (const int i : which) {
      const SigningKey key = key_of(kVectors[static_cast<std::size_t>(i)]);
      made.push_back({key.public_key(), key.sign(bytes_of("m"))});
    }
    return made;
  };
  EXPECT_TRUE(both->verify(bytes_of("m"), by({0, 1})).ok());
  EXPECT_TRUE(both->verify(bytes_of("m"), by({1, 2, 0})).ok());
  for (const Signatures& few : {by({0}), by({1, 1}), by({0, 2})}) {
    const Status refused = both->verify(bytes_of("m"), few);
    EXPECT_EQ(refused.code(), Code::kUnauthorized);
    EXPECT_THAT(refused.message(), HasSubstr("signed by 1 of the 2 keys"));
  }
  EXPECT_THAT(both->verify(bytes_of("m"), by({2})).message(), HasSubstr("not among the 2"));
  EXPECT_THAT(both->verify(bytes_of("m"), {}).message(), HasSubstr("it is not signed"));
  Signatures wrong = by({0, 1});
  wrong[1].signature[0] ^= std::byte{1};
  EXPECT_THAT(both->verify(bytes_of("m"), wrong).message(), HasSubstr("not one by the key"));
  EXPECT_TRUE(both->check_threshold().ok());
  const Result<TrustedKeys> short_of = TrustedKeys::load(path, 3);
  ASSERT_TRUE(short_of.ok()) << "a key may be removed while replicas run";
  EXPECT_EQ(short_of->check_threshold().code(), Code::kInvalidArgument);
  EXPECT_EQ(short_of->verify(bytes_of("m"), by({0, 1})).code(), Code::kUnauthorized);
}

TEST_F(Trust, CountsDifferentKeysAmongCommentsAndEmptyLines) {
  std::string with_comment = public_line(kVectors[1]);
  with_comment.insert(with_comment.size() - 1, " trainer 2, from March on");
  const std::string text = "# whom we trust\n\n" + public_line(kVectors[0]) + "  \t\n  # and\r\n" +
                           with_comment + public_line(kVectors[0]);
  EXPECT_EQ(keys(text).count(), 2u);
  EXPECT_EQ(keys(text.substr(0, text.size() - 1)).count(), 2u);
}

TEST_F(Trust, NamesFileAndLineOfWhatIsNoKey) {
  const std::string good = public_line(kVectors[0]), at = (folder_ / "trust") + ": line 2: ";
  const std::string key = good.substr(15, 44);
  EXPECT_THAT(refusal(good + "sparcl-ed25519 " + key.substr(1) + "\n"),
              HasSubstr(at + "the key has 43 characters"));
  EXPECT_THAT(refusal(good + "sparcl-ed25519 !" + key.substr(1) + "\n"),
              HasSubstr(at + "the key is not the base64 of 32 bytes"));
  EXPECT_THAT(refusal(good + "sparcl-ed25519\n"), HasSubstr(at + "the key has 0 characters"));
  EXPECT_THAT(refusal(good + key + "\n"), HasSubstr(at + "it is no public key of sparcl"));
  EXPECT_THAT(refusal("\nssh-ed25519 " + key + " me\n"),
              HasSubstr(at + "it is no public key of sparcl"));
  const std::string secret = secret_line(kVectors[0]);
  EXPECT_THAT(refusal(good + secret),
              AllOf(HasSubstr(at + "it is a secret key"), Not(HasSubstr(secret.substr(25, 10)))));
}

// Points that everybody can sign for, or that are none.
TEST_F(Trust, RefusesKeysOutsideTheGroup) {
  for (const char* key : {"0000000000000000000000000000000000000000000000000000000000000000",
                          "0100000000000000000000000000000000000000000000000000000000000000",
                          "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                          "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
                          "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
                          "0200000000000000000000000000000000000000000000000000000000000000"}) {
    EXPECT_THAT(refusal("sparcl-ed25519 " + base64(from_hex(key)) + "\n"),
                HasSubstr("line 1: the key is no point"))
        << key;
  }
}

TEST_F(Trust, RefusesFilesThatNameNobody) {
  for (const char* text : {"", "\n\n", "# sparcl-ed25519 nobody\n"})
    EXPECT_THAT(refusal(text), HasSubstr("trust: it names no key"));
  EXPECT_THAT(TrustedKeys::load(folder_ / "absent").status().message(),
              HasSubstr("absent: cannot be opened"));
  EXPECT_THAT(refusal(public_line(kVectors[0]) + std::string(70000, '\n')),
              HasSubstr("more than 65536 bytes"));
}

TEST_F(Trust, RefusesAFileThatEverybodyMayWriteTo) {
  const std::string path = file(public_line(kVectors[0]));
  ASSERT_EQ(::chmod(path.c_str(), 0646), 0);
  const Status refused = TrustedKeys::load(path).status();
  EXPECT_EQ(refused.code(), Code::kUnauthorized);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("its mode is 0646"), HasSubstr("chmod o-w " + path)));
  ASSERT_EQ(::chmod(path.c_str(), 0664), 0);
  EXPECT_TRUE(TrustedKeys::load(path).ok());
}

}  // namespace
}  // namespace sparcl::trust
