#pragma once
// The files beside the shards, as a replica that writes a folder knows them.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "src/replication/message.hpp"

namespace sparcl::replication {

class SideFileBook {
 public:
  using Files = std::shared_ptr<const std::vector<model::SideFile>>;
  struct Entry {
    std::uint64_t since = 0;  // the first version that they belong to
    Digest256 digest{};
    Files files{};  // nullptr: those that the replica came with
  };

  // brought: the digest of the files that the replica came with, or zeros; nothing: it writes no
  // folder, and asks for none.
  explicit SideFileBook(const std::optional<Digest256>& brought);

  bool is_on() const { return is_on_; }
  // Of the last set: the publisher need not send it again.
  Digest256 known() const { return entries_.empty() ? Digest256{} : entries_.back().digest; }

  // The publisher has not answered in this connection yet. is_new_epoch: its numbers of versions
  // are not those of before.
  void on_welcome(bool is_new_epoch);
  // The answer, whose signatures are checked. Corrupt: its files are not those of its digest.
  Status on_answer(SideFileSet set);
  bool is_answered() const { return is_answered_; }

  // Those of `version`. If only later ones are known, the earliest of them. Nothing: none are
  // known.
  std::optional<Entry> of(std::uint64_t version) const;

 private:
  static constexpr std::size_t kMaxEntries = 4;  // later ones replace the earliest

  bool is_on_;
  bool is_answered_ = false;
  std::deque<Entry> entries_;  // by `since`
};

}  // namespace sparcl::replication
