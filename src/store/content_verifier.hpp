#pragma once
// Checks all of a chain, and repairs it from a copy (store_content.hpp).

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/store/object_checks.hpp"
#include "src/store/record_faults.hpp"
#include "src/store/store_content.hpp"
#include "src/store/stored_range.hpp"

namespace sparcl::store {

class ContentVerifier {
 public:
  ContentVerifier(Chain& chain, Chain* copy, const std::function<void(const Damage&)>& visit);

  Status verify(std::int64_t lease_s);
  VerifyReport report() const;

 private:
  // What was found of a record or a shortcut.
  struct Judged {
    std::vector<std::pair<NamedObject, Status>> bad = {};       // objects
    std::vector<std::pair<NamedObject, Status>> to_bring = {};  // only the copy's are sound
    std::optional<UpdateEnds> ends = {};
    std::string fault = {};

    bool is_sound() const { return bad.empty() && fault.empty(); }
    std::string why() const;
  };
  struct Lists {
    StoredRange range;
    Origins origins;
    std::set<std::string> objects;  // anchors and skips
  };

  Status read_lists();
  Status check_marks();

  Status check_version(std::uint64_t number);
  Status check_record(std::uint64_t number);
  Result<bool> copy_has_objects(const Judged& judged);
  Status check_own_record(const VersionRecord& own, const std::optional<VersionRecord>& other);
  Status take_missing_record(const VersionRecord& other, const std::string& why);
  void accept(const VersionRecord& record, const Judged& judged);
  Status check_shortcut(std::uint64_t number, std::uint64_t from);
  Status check_own_shortcut(const Shortcut& own, const std::optional<Shortcut>& other);

  Result<Judged> judge(const VersionRecord& record, bool with_copy);
  Result<Judged> judge(const Shortcut& shortcut, bool with_copy);
  Status judge_objects(std::span<const NamedObject> objects, bool with_copy, Judged& judged);
  BeforeRecord before(const VersionRecord& record) const;
  std::optional<model::HeldVersion> version_of(std::uint64_t number) const;
  bool has_anchor(std::uint64_t number) const;
  Result<bool> next_refuses(const VersionRecord& record) const;
  Status bring(const Judged& judged);
  Status bring_object(const NamedObject& named, const Status& why);
  Status repair_objects(Judged& judged);
  Status replace_by_copy(const std::string& key);

  void note_missing_anchor(const VersionRecord& record);
  Status check_beginning();
  Status check_noted(std::uint64_t noted);
  void remark_unnamed();
  void note(const std::string& key, std::string what, bool is_repaired);
  void remark(const std::string& key, std::string what, bool is_repaired = false);
  Damage damage(const std::string& key, std::string what, bool is_repaired) const;

  Chain& chain_;
  Chain* copy_;
  const std::function<void(const Damage&)>& visit_;
  VerifyReport report_;
  ObjectChecks own_checks_;
  std::unique_ptr<ObjectChecks> copy_checks_;
  Lists own_, other_;  // other_: of the copy
  std::uint64_t first_ = 1, last_ = 0;

  std::optional<VersionRecord> record_;        // of the present number
  std::optional<model::HeldVersion> version_;  // to which its objects lead
  std::optional<VersionRecord> last_record_;
  std::uint64_t before_number_ = 0, before_anchor_ = 0;
  std::optional<model::HeldVersion> before_version_;
  std::map<std::uint64_t, model::HeldVersion> versions_;  // where shortcuts begin
  std::set<std::uint64_t> origins_;                       // all those numbers
  std::set<std::uint64_t> missing_anchors_;               // that records name
  std::set<std::string> told_;                            // damage of shared objects
};

}  // namespace sparcl::store
