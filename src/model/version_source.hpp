#pragma once
// The contract between a replica and what carries versions to it: a publisher's session over a
// connection, memory of the same host, another replica that passes updates on, a store.
//
// The reader says what it has (offer()). The source answers with a plan: the commit of the next
// update. The reader asks for the bytes of that update (chunks()), and gets them in their order,
// from the byte that it names. Nothing here blocks: the source calls the reader when an answer is
// there, in the turns of the source's owner.
//
// A reader believes no byte: it checks digests against the commit, and bytes against digests. Two
// sources of the same commit give the same bytes, so that a reader may go on with another source.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/buffer.hpp"
#include "src/base/status.hpp"
#include "src/model/version_update.hpp"

namespace sparcl::model {

// The version that a reader has.
struct VersionHave {
  enum class Stage : std::uint8_t {
    kStaged = 1,  // all bytes of the update that leads there
    kHeld = 2,    // its tensors are this version
  };
  Stage stage = Stage::kStaged;
  HeldVersion held;
  bool is_vouched = false;  // the publisher's own updates, or its SHA-256, have led there
};

// The next update from what the reader has.
struct VersionPlan {
  Commit commit;
  trust::Signatures signatures{};  // of serialise(commit); empty: it is not signed
};

// Asks for the bytes of a plan.
struct ChunkRequest {
  UpdateName update;
  std::uint64_t first_byte = 0;  // the bytes before are there already
  bool has_leaves = false;       // and so are all digests of leaves
};

// Digests of the update's leaves from `first` on. All come before the first byte, in their order.
struct LeafDigests {
  UpdateName update;
  std::uint64_t first = 0;
  std::vector<Digest256> digests;
};

// Some bytes of an update.
struct ChunkPosition {
  std::uint64_t version = 0;
  std::uint64_t first_byte = 0;
};

// A plan, or its bytes, are of no use to the reader.
struct PlanRefusal {
  UpdateName update;
  Code code = Code::kCorrupt;
  bool wants_anchor = false;  // the next plan must carry all bytes
  std::string text;
};

class VersionSource;

// An error ends the source: it is told why.
class VersionReader {
 public:
  virtual Status on_plan(VersionSource& from, VersionPlan plan, double now) = 0;
  virtual Status on_digests(VersionSource& from, const LeafDigests& digests) = 0;
  // Where the next bytes go. Empty: they are not wanted.
  virtual Buffer destination(const VersionSource& from, const ChunkPosition& at,
                             std::size_t count) = 0;
  // They are there. has_destination: destination() has given them one.
  virtual Status on_chunk(VersionSource& from, const ChunkPosition& at, std::size_t count,
                          bool has_destination, double now) = 0;
  // The next bytes as immutable memory: a whole segment, or the end of the update.
  virtual Status on_memory(VersionSource& from, const ChunkPosition& at, Buffer memory,
                           double now) = 0;
  virtual Status on_end(VersionSource& from, const UpdateName& update) = 0;
  // There is this version.
  virtual void on_newest(const VersionSource& from, std::uint64_t version) = 0;
  virtual void on_closed(VersionSource& from, const Status& why, double now) = 0;

 protected:
  ~VersionReader() = default;
};

class VersionSource {
 public:
  // The newest version that the source has told of; 0: none yet.
  virtual std::uint64_t newest() const = 0;
  // False: the source ignores the calls below.
  virtual bool is_ready() const = 0;
  // Tells what the reader has now. A source that has no path from there is closed with WrongBase.
  virtual void offer(const VersionHave& have) = 0;
  virtual void chunks(const ChunkRequest& plan) = 0;
  virtual void refuse(const PlanRefusal& why) = 0;

 protected:
  ~VersionSource() = default;
};

}  // namespace sparcl::model
