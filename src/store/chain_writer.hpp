#pragma once
// Publishes the versions of a state to a chain.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/codec/update.hpp"
#include "src/model/snapshot.hpp"
#include "src/store/chain_state.hpp"
#include "src/store/retention.hpp"
#include "src/store/shortcut_writer.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

struct WriterOptions {
  // An anchor is written so many versions after the last one, or up to kSkipEvery - 1 earlier where
  // skips begin, or once the deltas after it have as many bytes as it has.
  std::uint64_t anchor_every = 64;
  ChainShape shape = ChainShape::kHybrid;
  Keep keep = {};  // after each anchor; 0 versions: all
  // Publish also to a store that does not exclude writers: another writer is then detected when it
  // has overwritten a record, and not prevented.
  bool single_writer = false;
  ChainTrustRef trust = nullptr;  // of Chain
};

class ChainWriter {
 public:
  // Goes on after the newest version of the chain, which is read into memory. Mismatch: that is of
  // other tensors.
  static Result<std::unique_ptr<ChainWriter>> open(ObjectStore& store, const ChainState& state,
                                                   const WriterOptions& options);

  // How the tensors lie in files, for the versions from the next one on (VersionRecord).
  Status describe(std::span<const std::byte> description);

  ~ChainWriter();

  // Publishes the state's present bytes. It returns when the version is there for all readers. An
  // anchor or skips that are due are written beside the caller's work; the next call waits for
  // them. InvalidArgument: it does not come after the newest one. Stale: another writer has
  // published. After another error the version may be there or not: the next call finds out.
  Status publish(std::uint64_t version);
  // The same for these bytes of the same tensors, which do not change meanwhile.
  Status publish(std::uint64_t version, std::span<std::byte* const> arrays);
  // Publishes an update that was coded already. WrongBase: it does not lead on from the newest
  // version of the chain, and nothing was published.
  Status publish(const model::VersionUpdate& update);
  // Of the last version that was published: the changed elements.
  std::uint64_t changed() const { return changed_; }
  // Until anchors and skips are written.
  void finish() {
    if (shortcuts_ != nullptr) shortcuts_->wait();
  }
  const std::optional<VersionRecord>& newest() const { return newest_; }
  // Whether a version may be there whose publishing has failed.
  bool is_unsure() const { return is_unsure_; }

 private:
  ChainWriter(ObjectStore& store, const ChainState& state, const WriterOptions& options)
      : chain_(store, options.trust), state_(state), options_(options), effort_(store.link()) {}
  Status load();
  Status check(std::uint64_t version) const;
  bool is_anchor_due() const;
  // Brings the snapshot forward to a version whose delta was put.
  class Delta;
  class EncodedDelta;
  class GivenDelta;
  // A version on its way, whose bytes are an array's or a given update's.
  struct Next {
    std::uint64_t version = 0;
    std::function<Result<bool>()> is_newest;  // its bytes are those of the newest version
    std::function<Result<std::unique_ptr<Delta>>(VersionRecord&)> put_delta;
  };
  Status publish(const Next& next);
  Status publish_next(const Next& next);
  Status look_again(const Next& next, bool& is_there);
  Status put_schema();
  Status begin_chain(VersionRecord& next);
  Result<std::unique_ptr<Delta>> encode_delta(VersionRecord& next);
  Result<std::unique_ptr<Delta>> take_delta(const model::VersionUpdate& update,
                                            VersionRecord& next);
  std::string delta_key(const VersionRecord& next) const;
  Hash128 state_hash() const;
  void take_anchor(const Shortcut& anchor);
  std::unique_ptr<ShortcutWriter> shortcut_writer() const;

  Chain chain_;
  ChainState state_;
  WriterOptions options_;
  EffortChoice effort_;  // of deltas
  std::string writer_;
  StoredObject schema_;
  std::optional<StoredObject> description_;
  bool excludes_writers_ = true;                  // what the store does
  bool has_schema_ = false;                       // in the store
  std::uint64_t attempts_ = 0;                    // to publish: each has names of its own
  Status stopped_;                                // Stale: another writer has published
  bool is_unsure_ = false;                        // whether the last record has been written
  std::optional<VersionRecord> newest_, before_;  // before_: when it became unsure
  std::optional<Shortcut> anchor_;                // the newest one
  std::uint64_t delta_bytes_ = 0;                 // after it
  std::uint64_t changed_ = 0;
  model::Snapshot snapshot_;                   // of the newest version
  std::unique_ptr<ShortcutWriter> shortcuts_;  // reads the snapshot
};

}  // namespace sparcl::store
