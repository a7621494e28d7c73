// Calls that read much of a chain while another process prunes it, leases that are renewed while
// they are looked at, and a damaged object `pruned`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <utime.h>

#include <ctime>

#include "src/store/compaction.hpp"
#include "src/store/held_lease.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/store_content.hpp"
#include "tests/store/chain_support.hpp"
#include "tests/store/hooked_store.hpp"

namespace sparcl::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Call = HookedStore::Call;

class BesidePruning : public ChainOfVersions {
 protected:
  // As another process: a mark that is old enough, and what it lets go.
  void prune_below(std::uint64_t number) {
    ASSERT_TRUE(write_pruned(*store, {{{number, ::time(nullptr) - 1000}}}).ok());
    Chain others(*store);
    ASSERT_TRUE(prune(others, {.versions = 1, .lease_s = 600}).ok());
  }
  void write(const std::string& key, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    ASSERT_TRUE(store->replace(key, {&bytes, 1}).ok());
  }
  std::vector<std::string> damage() {
    std::vector<std::string> found;
    const auto report = verify_content(chain, nullptr, [&](const Damage& each) {
      found.push_back(each.location + ": " + each.what);
    });
    EXPECT_TRUE(report.ok()) << report.status().message();
    return found;
  }
  void set_age(const std::string& key, std::int64_t seconds) {
    const std::time_t then = ::time(nullptr) - seconds;
    const struct utimbuf times { then, then };
    ASSERT_EQ(::utime(store->location_of(key).c_str(), &times), 0);
  }

  HookedStore hooked{*store};
};

TEST_F(BesidePruning, ACopyKeepsWhatItReads) {
  publish_all(14);  // anchors: 1, 5, 9, 13
  hooked.before = HookedStore::once(Call::kReadWhole, "deltas/", [&] { prune_below(13); });
  Chain from(hooked);
  const auto target = std::move(*DirectoryStore::open(folder / "copy"));
  Chain to(*target);
  const Result<std::uint64_t> copied = copy_content(from, to);
  ASSERT_TRUE(copied.ok()) << copied.status().message();
  EXPECT_EQ(*copied, 14U);
  EXPECT_THAT(keys("leases"), IsEmpty());
  prune_below(13);
  EXPECT_EQ(keys("commits").size(), 2U) << "once no lease is left";
}

TEST_F(BesidePruning, CompactionAndVerificationKeepWhatTheyRead) {
  publish_all(10);
  for (const std::string& key : keys("skips")) ASSERT_TRUE(store->remove(key).ok());
  ASSERT_TRUE(store->remove(shortcut_key(8, 0)).ok());
  Chain reader(hooked);
  hooked.before = HookedStore::once(Call::kReadWhole, "deltas/", [&] { prune_below(9); });
  const Result<std::uint64_t> added = compact(reader, kernels::cpu_kernels());
  ASSERT_TRUE(added.ok()) << added.status().message();
  ASSERT_TRUE(store->remove(kPruned).ok());
  hooked.before = HookedStore::once(Call::kReadWhole, "deltas/", [&] { prune_below(9); });
  const auto report = verify_content(reader, nullptr, [](const Damage& each) {
    ADD_FAILURE() << each.location << ": " << each.what;
  });
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->versions, 10U);
  EXPECT_THAT(keys("leases"), IsEmpty());
}

TEST_F(BesidePruning, AWriterThatStartsReadsItsVersion) {
  publish_all(12);  // anchors: 1, 5, 9
  hooked.before = HookedStore::once(Call::kReadWhole, "anchors/", [&] {
    const auto other = writer(*store);
    trained.change(100, 1000);
    publish(*other, 100);
    other->finish();  // with an anchor
    prune_below(13);
  });
  const std::unique_ptr<ChainWriter> late = writer(hooked);
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->newest()->version, 23U);
  EXPECT_EQ(late->publish(101).code(), Code::kStale);
  EXPECT_THAT(keys("leases"), IsEmpty());
}

TEST_F(BesidePruning, AHeldLeaseIsRenewed) {
  publish_all(1);
  const auto lease = HeldLease::hold(*store, 3);
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  const std::string key = keys("leases").at(0);
  set_age(key, 1000);
  for (int tries = 0; tries < 1000 && (**store->look(key)).written_s < ::time(nullptr) - 500;
       ++tries)
    ::usleep(10'000);
  EXPECT_GT((**store->look(key)).written_s, ::time(nullptr) - 500);
}

TEST_F(BesidePruning, ALeaseThatIsRenewedMeanwhileStays) {
  Lease lease(*store);
  ASSERT_TRUE(*lease.hold(3));
  const std::string key = keys("leases").at(0);
  set_age(key, 5000);
  hooked.after = HookedStore::once(Call::kList, "leases", [&] { set_age(key, 0); });
  const auto first = first_leased(hooked, ::time(nullptr), 600);
  ASSERT_TRUE(first.ok() && *first) << first.status().message();
  EXPECT_EQ((*first)->number, 3U);
  EXPECT_THAT(keys("leases"), ElementsAre(key));
  // One that has expired counts no more, and is removed when it has stayed so.
  set_age(key, 700);
  EXPECT_FALSE(first_leased(*store, ::time(nullptr), 600)->has_value());
  EXPECT_THAT(keys("leases"), ElementsAre(key));
  set_age(key, 1300);
  EXPECT_FALSE(first_leased(*store, ::time(nullptr), 600)->has_value());
  EXPECT_THAT(keys("leases"), IsEmpty());
}

TEST_F(BesidePruning, ALateLeaseGetsAnotherName) {
  Lease lease(*store, 0);  // it is late at once
  ASSERT_TRUE(*lease.hold(3));
  ASSERT_TRUE(*lease.hold(4));
  EXPECT_EQ(keys("leases").size(), 2U) << "the first one may be being removed";
}

TEST_F(BesidePruning, ADamagedLeaseNeedsAll) {
  publish_all(6);
  write("leases/x", std::string(1000, '9'));
  const auto report = prune(chain, {.versions = 1, .lease_s = 600});
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_TRUE(report->lease);
  EXPECT_EQ(report->lease->key, "leases/x");
  EXPECT_EQ(report->lease->number, 0U);
}

TEST_F(BesidePruning, ADamagedMarkIsNamedAndRemovesNothing) {
  publish_all(10);  // anchors: 1, 5, 9
  const std::string at = store->location_of(kPruned);
  for (const char* text :
       {"none", "[[5, 1], [4, 1]]", "[[5, -1]]", "[[5, 18446744073709551615]]"}) {
    write(kPruned, text);
    EXPECT_THAT(damage(), ElementsAre(AllOf(HasSubstr(at), HasSubstr("writes it again"))));
    std::size_t listed = 0;
    ASSERT_TRUE(list_versions(chain, [&](const ListedVersion&) { ++listed; }).ok());
    EXPECT_EQ(listed, 10U);
    HeldTensors held(kTensors);
    ASSERT_TRUE(bring(held, *chain.record(3)).ok());
    trained.change(contents.size(), 100);
    const auto next = writer(*store);
    const auto report = prune(chain, {.versions = 100, .lease_s = 0});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report->has_damaged_marks);
    EXPECT_EQ(report->objects, 0U);
    EXPECT_THAT(damage(), IsEmpty()) << "record 1 is there: nothing is being removed";
  }
  // Marks that lead to no anchor, or beyond the chain.
  for (const char* text : {"[[999, 1]]", "[[7, 1]]"}) {
    write(kPruned, text);
    const auto report = prune(chain, {.versions = 100, .lease_s = 600});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report->has_damaged_marks) << text;
    EXPECT_EQ(report->objects, 0U) << text;
    EXPECT_EQ(keys("commits").size(), 10U);
  }
}

// The marks are lost after half of the records: what is left is found by the list.
TEST_F(BesidePruning, ADamagedMarkOfAPrunedChainIsWrittenAgain) {
  publish_all(14);  // anchors: 1, 5, 9, 13
  ASSERT_EQ(prune(chain, {.versions = 8, .lease_s = 0})->versions, 4U);
  write(kPruned, "x");
  EXPECT_EQ(*chain.oldest(), 5U);
  EXPECT_EQ(damage().size(), 1U);
  trained.change(77, 100);
  publish(*writer(*store), 100);
  EXPECT_EQ(prune(chain, {.versions = 100, .lease_s = 0})->versions, 0U);
  EXPECT_EQ(damage().size(), 1U) << "it is not known what was removed";
  EXPECT_EQ(prune(chain, {.versions = 8, .lease_s = 600})->versions, 0U);
  EXPECT_EQ(*chain.oldest(), 5U) << "the anchor of the versions that are kept";
  EXPECT_THAT(damage(), IsEmpty());
  EXPECT_EQ(prune(chain, {.versions = 1, .lease_s = 0})->versions, 8U);
  EXPECT_THAT(damage(), IsEmpty());
  EXPECT_EQ(*chain.oldest(), 13U);
}

}  // namespace
}  // namespace sparcl::store
