#pragma once
// A checkpoint in private memory that deltas are applied to. The files are read once, and not
// changed.

#include <cstdint>
#include <string>
#include <vector>

#include "src/codec/array_source.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/exchange/sparse_change.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/side_file.hpp"
#include "src/model/zero_memory.hpp"

namespace sparcl::model {

// One end of a delta: its base or its target. Everything that it points to outlives it.
struct StateView {
  const Layout& layout;
  const Schema& schema;
  std::span<const std::byte* const> tensors;  // nullptr: the source has it
  std::span<const SideFile> side_files;
  const codec::ArraySource* source = nullptr;

  codec::ArrayInput input() const { return {{tensors.begin(), tensors.end()}, source}; }
};

class HeldState {
 public:
  static Result<HeldState> open(const std::string& path, const FileWatch& watch = {});

  // Turns the state into the delta's target, after every check has passed. The checks are CRCs and
  // structure of the delta, and the state hashes of the held state before and of the result after.
  // After an error (Corrupt, WrongBase) the state must be discarded.
  Status apply(const Delta& delta, const FileWatch& watch = {});

  // The same for a change from another program's file, which does not name its base: the base is
  // assumed to be right. Its tensors are matched with the held ones (Mismatch, Corrupt).
  Status apply(SparseChange& change, const FileWatch& watch = {});

  StateView view() const { return {layout_, schema_, read_, side_files_}; }
  const Checkpoint& base() const {
    return base_;
  }  // its layout and schema are those of the file; its tensors have changed
  std::span<std::byte* const> tensors() { return pointers_; }
  const std::string& path() const { return base_.path(); }
  std::uint64_t byte_count() const;

  const Hash128& hash() const { return hash_; }       // of the state held
  std::uint64_t changed() const { return changed_; }  // by the last apply()
  std::uint64_t unchanged() const {
    return unchanged_;
  }  // of another program's file: values that are the base's already
  // False: the tensors are the target's, but another program rewrote the base's header since the
  // diff.
  bool exact() const { return exact_; }

 private:
  explicit HeldState(Checkpoint base) : base_(std::move(base)) {}
  Status check_base(const Delta& delta, const DeltaSummary& summary) const;
  Status hold(const Schema& schema, const Delta& delta);
  Status rehash(const FileWatch& watch);
  // WrongBase or InternalError, by `code`, if the state's identity is another one.
  Status check_identity(const Digest256& wanted, Code code, const std::string& text,
                        const FileWatch& watch) const;

  Checkpoint base_;
  std::vector<ZeroMemory> fresh_;  // tensors that deltas have brought
  Layout layout_;
  Schema schema_;
  std::vector<std::byte*> pointers_;
  std::vector<const std::byte*> read_;  // the same
  std::vector<SideFile> side_files_;
  Hash128 hash_;
  std::uint64_t changed_ = 0;
  std::uint64_t unchanged_ = 0;
  bool exact_ = true;
};

}  // namespace sparcl::model
