#pragma once
// Whether a store is a copy of another one.

#include <cstdint>
#include <optional>
#include <span>

#include "src/store/object_checks.hpp"
#include "src/store/version_chain.hpp"

namespace sparcl::store {

// What is damaged in a copy is no help: nullopt.
template <class Record>
Result<std::optional<Record>> if_sound(Result<std::optional<Record>> read) {
  if (read.ok() || !is_damage(read.status())) return read;
  return std::optional<Record>();
}

// But for signatures, which a copy may have added.
bool is_same(const VersionRecord& one, const VersionRecord& other);

// Mismatch: some record that both have is another one, or they have none in common. One that is
// damaged counts for its writer's name and its object's, which are random. numbers: the copy's.
Status check_is_copy(const Chain& chain, const Chain& copy, std::span<const std::uint64_t> numbers);

}  // namespace sparcl::store
