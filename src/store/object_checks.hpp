#pragma once
// Whether the objects that records name are what was published. Each is read once.

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "src/store/stored_update.hpp"

namespace sparcl::store {

// Damage, unlike a store that fails.
inline bool is_damage(const Status& status) {
  return status.code() == Code::kCorrupt || status.code() == Code::kUnsupported;
}

// kUpdate: of one version, and it says where it leads. kOther: of one version. kShared: versions
// name the same one.
enum class ObjectKind : std::uint8_t { kUpdate, kOther, kShared };

struct NamedObject {
  StoredObject object;
  ObjectKind kind = ObjectKind::kOther;
};

// status: ok, or damage.
struct ObjectVerdict {
  Status status = {};
  std::optional<UpdateEnds> ends = {};
};

class ObjectChecks {
 public:
  explicit ObjectChecks(ObjectStore& store) : store_(store) {}

  // An error is the store's, not the object's.
  Result<ObjectVerdict> check(const NamedObject& named);
  // It was replaced by bytes that are right.
  void note_replaced(const NamedObject& named, const ObjectVerdict& verdict);
  // Forgets all but shared objects.
  void forget() { verdicts_.clear(); }
  // What a sound shared object of this name is; nullptr: none was seen.
  const StoredObject* sound_shared(const std::string& key) const;

  std::uint64_t objects() const { return objects_; }
  std::uint64_t bytes() const { return bytes_; }  // of sound ones

 private:
  using Verdicts = std::unordered_multimap<std::string, std::pair<StoredObject, ObjectVerdict>>;
  Verdicts& of_kind(ObjectKind kind) { return kind == ObjectKind::kShared ? shared_ : verdicts_; }

  ObjectStore& store_;
  Verdicts verdicts_, shared_;  // by key
  std::uint64_t objects_ = 0, bytes_ = 0;
};

}  // namespace sparcl::store
