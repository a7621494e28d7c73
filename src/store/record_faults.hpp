#pragma once
// What shows that a record or a shortcut is not the one that was written: the object that it names,
// and the records around it, say otherwise.

#include <optional>
#include <string>

#include "src/store/stored_update.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

// What is known of the chain before a record.
struct BeforeRecord {
  std::uint64_t first = 1;                         // the first record that is not being removed
  std::optional<model::HeldVersion> version = {};  // of the record before it
  std::uint64_t newest_anchor = 0;                 // that the record before it names; 0: unknown
  const VersionRecord* record = nullptr;           // the last one before it that was taken
  bool has_anchor = true;  // the one that the record itself names is there, or was
};

// "": nothing. ends: of its delta, or of the first record's anchor; nullopt: they are not known.
std::string fault_of(const VersionRecord& record, const std::optional<UpdateEnds>& ends,
                     const BeforeRecord& before);
// target, base: the versions of its records, if they are known.
std::string fault_of(const Shortcut& shortcut, const std::optional<UpdateEnds>& ends,
                     const std::optional<model::HeldVersion>& target,
                     const std::optional<model::HeldVersion>& base);
// The first field that differs.
std::string differing_field(const VersionRecord& one, const VersionRecord& other);
std::string differing_field(const Shortcut& one, const Shortcut& other);

}  // namespace sparcl::store
