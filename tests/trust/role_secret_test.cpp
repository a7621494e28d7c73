// The secrets of a service's roles, and their files.

#include "src/trust/role_secret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trust/key_support.hpp"

namespace sparcl::trust {
namespace {

using ::testing::HasSubstr;

RoleSecret made_secret() {
  Result<RoleSecret> secret = RoleSecret::generate();
  EXPECT_TRUE(secret.ok()) << secret.status().message();
  return std::move(*secret);
}

RoleSecret loaded(const std::string& path) {
  Result<RoleSecret> secret = RoleSecret::load(path);
  EXPECT_TRUE(secret.ok()) << secret.status().message();
  return std::move(*secret);
}

bool have_equal_keys(const RoleSecret& a, const RoleSecret& b) {
  const Result<SecretBytes> one = a.tls_key(), other = b.tls_key();
  return one.ok() && other.ok() && *a.tls_identity() == *b.tls_identity() &&
         std::ranges::equal(one->bytes(), other->bytes());
}

TEST(RoleSecret, EachFileHasTheSecretOfItsRole) {
  const TempFolder folder;
  const RoleSecret secret = made_secret();
  ASSERT_TRUE(secret.save(folder / "run").ok());
  EXPECT_EQ(folder.count(), 3u);
  const struct {
    const char* name;
    Role role;
  } kFiles[] = {{"run", Role::kPublish},
                {"run.replicate", Role::kReplicate},
                {"run.observe", Role::kObserve}};
  for (const auto& file : kFiles) {
    SCOPED_TRACE(file.name);
    EXPECT_EQ(mode_of(folder / file.name), 0600u);
    const RoleSecret own = loaded(folder / file.name);
    EXPECT_EQ(own.role(), file.role);
    EXPECT_EQ(own.publisher_key(), secret.publisher_key());
    for (const Role role : {Role::kObserve, Role::kReplicate, Role::kPublish}) {
      const Result<RoleSecret> derived = own.for_role(role);
      ASSERT_EQ(derived.ok(), role <= file.role);
      if (derived.ok()) {
        EXPECT_TRUE(have_equal_keys(*derived, *secret.for_role(role)));
      } else {
        EXPECT_EQ(derived.status().code(), Code::kUnauthorized);
      }
    }
    EXPECT_EQ(own.signing_key().ok(), file.role == Role::kPublish);
  }
  EXPECT_EQ(secret.signing_key()->public_key(), secret.publisher_key());
}

// Golden values: files that exist must open the same service in later releases.
TEST(RoleSecret, DerivesTheSameKeysForEver) {
  const TempFolder folder;
  const std::string zeros = base64(std::vector<std::byte>(32));
  const RoleSecret secret =
      loaded(private_file(folder / "zeros", "sparcl-join-publish " + zeros + "\n"));
  EXPECT_EQ(public_key_line(secret.publisher_key()),
            "sparcl-ed25519 8bt+TlT39e70EKLiDHbYVHvSVnZl9L0yw5JqLLzN4ZE=");
  EXPECT_EQ(*secret.for_role(Role::kReplicate)->tls_identity(),
            "sparcl replicate 9842cd79c4aabedb");
  EXPECT_EQ(*secret.for_role(Role::kObserve)->tls_identity(), "sparcl observe 9a991e4924b01ddd");
  const SecretBytes key = std::move(*secret.for_role(Role::kReplicate)->tls_key());
  EXPECT_EQ(base64(key.bytes()), "Novt4Vnipe9wfkXSN9GYGTsQZs0dJRi3QWT2eJJEjfQ=");
}

TEST(RoleSecret, OfOneServiceOpensNoOther) {
  const RoleSecret a = made_secret(), b = made_secret();
  EXPECT_NE(a.publisher_key(), b.publisher_key());
  for (const Role role : {Role::kObserve, Role::kReplicate, Role::kPublish})
    EXPECT_NE(*a.for_role(role)->tls_identity(), *b.for_role(role)->tls_identity());
  EXPECT_FALSE(have_equal_keys(*a.for_role(Role::kReplicate), *a.for_role(Role::kObserve)));
}

TEST(RoleSecret, NeverOverwritesAFileAndLeavesNoneBehind) {
  const TempFolder folder;
  write_text(folder / "run.replicate", "mine");
  const Status status = made_secret().save(folder / "run");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("never overwritten"));
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_EQ(read_text(folder / "run.replicate"), "mine");
  EXPECT_FALSE(made_secret().save(folder / "").ok());
}

TEST(RoleSecret, RefusesFilesThatAreNone) {
  const TempFolder folder;
  const std::string key = base64(std::vector<std::byte>(32));
  const struct {
    std::string text;
    const char* why;
  } kBad[] = {
      {"", "sparcl secret makes them"},
      {public_line(kVectors[0]), "holds no secret of a role"},
      {"sparcl-join-owner " + key + "\n", "holds no secret of a role"},
      {"sparcl-join-publish " + key.substr(1) + "\n", "line 1: the key has 43 characters"},
      {"sparcl-join-publish " + key + " " + key + "\n", "goes on after the secret"},
      {"sparcl-join-replicate " + key + "\n", "the publisher's public key"},
      {"sparcl-join-replicate " + key + " " + key + " x\n", "the publisher's public key"},
      {"sparcl-join-publish " + key + "\nsparcl-join-publish " + key + "\n",
       "line 2: this secret stands there twice"},
  };
  for (const auto& bad : kBad) {
    const Status status = RoleSecret::load(private_file(folder / "bad", bad.text)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << bad.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.why));
    EXPECT_EQ(std::string(status.message()).find(key), std::string::npos);
  }
  const std::string open = private_file(folder / "open", "sparcl-join-publish " + key + "\n");
  ::chmod(open.c_str(), 0640);
  EXPECT_THAT(std::string(RoleSecret::load(open).status().message()),
              HasSubstr("its mode is 0640"));
}

}  // namespace
}  // namespace sparcl::trust
