#include "src/store/object_checks.hpp"

#include <utility>

namespace sparcl::store {

Result<ObjectVerdict> ObjectChecks::check(const NamedObject& named) {
  Verdicts& known = of_kind(named.kind);
  const auto [begin, end] = known.equal_range(named.object.key);
  for (auto each = begin; each != end; ++each)
    if (each->second.first == named.object) return each->second.second;
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
  known.emplace(named.object.key, std::pair(named.object, verdict));
  return verdict;
}

void ObjectChecks::note_replaced(const NamedObject& named, const ObjectVerdict& verdict) {
  Verdicts& known = of_kind(named.kind);
  known.erase(named.object.key);
  known.emplace(named.object.key, std::pair(named.object, verdict));
}

const StoredObject* ObjectChecks::sound_shared(const std::string& key) const {
  const auto [begin, end] = shared_.equal_range(key);
  for (auto each = begin; each != end; ++each)
    if (each->second.second.status.ok()) return &each->second.first;
  return nullptr;
}

}  // namespace sparcl::store
