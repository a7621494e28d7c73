#include "src/store/copy_identity.hpp"

#include <fmt/format.h>

namespace sparcl::store {
namespace {

const std::string& object_key(const VersionRecord& record) {
  return record.delta ? record.delta->key : record.anchor->key;
}

Status not_a_copy(const Chain& chain, const Chain& copy, const std::string& why) {
  return Status(Code::kMismatch,
                fmt::format("{} is not a copy of {}: {}. Nothing was written. Give a store that "
                            "sparcl store copy has made from this one",
                            copy.store().location_of(""), chain.store().location_of(""), why));
}

Status check_record_pair(const Chain& chain, const Chain& copy, std::uint64_t number,
                         bool& is_common) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> other, if_sound(copy.look(number)));
  if (!other) return {};
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> own, if_sound(chain.look(number)));
  if (!own) {
    if (is_common) return {};
    SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> object,
                            chain.store().look(object_key(*other)));
    is_common = object.has_value();
    return {};
  }
  if (is_same(*own, *other)) {
    is_common = true;
    return {};
  }
  if (own->writer == other->writer || object_key(*own) == object_key(*other)) return {};
  return not_a_copy(chain, copy,
                    fmt::format("record {} is version {} with the state {} there, and version {} "
                                "with {} here, and other programs have written them",
                                number, other->version, to_hex(other->target_hash), own->version,
                                to_hex(own->target_hash)));
}

}  // namespace

bool is_same(const VersionRecord& one, const VersionRecord& other) {
  return one == other || signed_text(one) == signed_text(other);
}

Status check_is_copy(const Chain& chain, const Chain& copy,
                     std::span<const std::uint64_t> numbers) {
  bool is_common = false;
  for (const std::uint64_t number : numbers)
    SPARCL_RETURN_IF_ERROR(check_record_pair(chain, copy, number, is_common));
  return is_common ? Status() : not_a_copy(chain, copy, "they have no version in common");
}

}  // namespace sparcl::store
