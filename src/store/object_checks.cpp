#include "src/store/object_checks.hpp"

#include <algorithm>

namespace sparcl::store {

Result<ObjectVerdict> ObjectChecks::check(const NamedObject& named) {
  Verdicts& known = of_kind(named.kind);
  const auto seen = std::ranges::find(known, named.object, &Verdicts::value_type::first);
  if (seen != known.end()) return seen->second;
  ObjectVerdict verdict;
  ++objects_;
  if (named.kind == ObjectKind::kUpdate) {
    Result<UpdateEnds> ends = check_update(store_, named.object);
    verdict.status = ends.status();
    if (ends.ok()) verdict.ends = *ends;
  } else {
    verdict.status = check_object(store_, named.object);
  }
  if (!verdict.status.ok() && !is_damage(verdict.status)) return verdict.status;
  if (verdict.status.ok()) bytes_ += named.object.bytes;
  known.emplace_back(named.object, verdict);
  return verdict;
}

void ObjectChecks::note_replaced(const NamedObject& named, const ObjectVerdict& verdict) {
  Verdicts& known = of_kind(named.kind);
  std::erase_if(known, [&](const auto& each) { return each.first.key == named.object.key; });
  known.emplace_back(named.object, verdict);
}

const StoredObject* ObjectChecks::sound_shared(const std::string& key) const {
  for (const auto& [object, verdict] : shared_)
    if (object.key == key && verdict.status.ok()) return &object;
  return nullptr;
}

}  // namespace sparcl::store
