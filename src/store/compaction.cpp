#include "src/store/compaction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/memory_size.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/schema.hpp"
#include "src/store/chain_path.hpp"
#include "src/store/chain_reader.hpp"
#include "src/store/held_lease.hpp"
#include "src/store/random_name.hpp"
#include "src/store/stored_object.hpp"
#include "src/store/stored_schema.hpp"
#include "src/store/update_coding.hpp"

namespace sparcl::store {
namespace {

// The tensors of a chain, as its schema says.
struct Tensors {
  std::vector<std::byte> schema;
  Hash128 schema_hash;
  std::unique_ptr<codec::BlockMap> map;
};

// A schema of a few bytes can claim any size. Two versions are kept in memory.
Status check_memory(const codec::BlockMap& map, const std::string& location) {
  const std::uint64_t memory = physical_memory();
  if (map.byte_count() <= memory / 2) return {};
  return Status(
      Code::kOutOfMemory,
      fmt::format("{}: two copies of tensors of {} bytes are needed, and this machine has "
                  "{} bytes of memory",
                  location, map.byte_count(), memory));
}

Result<Tensors> tensors_of(const Chain& chain, const StoredObject& schema) {
  Tensors tensors;
  SPARCL_ASSIGN_OR_RETURN(StoredSchema stored, read_schema(chain, schema));
  tensors.schema = std::move(stored.bytes);
  tensors.schema_hash = model::schema_hash(tensors.schema);
  tensors.map = std::make_unique<codec::BlockMap>(model::make_block_map(stored.tensors));
  SPARCL_RETURN_IF_ERROR(check_memory(*tensors.map, chain.store().location_of(schema.key)));
  return tensors;
}

// One version in memory, which goes forward.
class Copy {
 public:
  Copy(const Tensors& tensors, const kernels::KernelSet& kernels) {
    for (const codec::ArraySpec& array : tensors.map->arrays()) {
      memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(array.bytes()));
      arrays_.push_back(memory_.back().get());
    }
    state_.map = tensors.map.get();
    state_.schema = tensors.schema;
    state_.schema_hash = tensors.schema_hash;
    state_.arrays = arrays_;
    state_.kernels = &kernels;
  }

  Status go_to(const Chain& chain, const VersionRecord& record) {
    const Status restored = go(chain, record);
    held_ = restored.ok() ? std::optional(record.target()) : std::nullopt;
    return restored;
  }
  const ChainState& state() const { return state_; }

 private:
  Status go(const Chain& chain, const VersionRecord& record) {
    if (!held_) return restore_in_place(chain, record, state_);
    SPARCL_ASSIGN_OR_RETURN(const auto steps, steps_to(chain, record, {.held = held_}));
    return restore(chain, record, steps, held_, state_);
  }

  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::byte*> arrays_;
  ChainState state_;
  std::optional<model::HeldVersion> held_;
};

class Compactor {
 public:
  Compactor(Chain& chain, const Tensors& tensors, const kernels::KernelSet& kernels,
            std::string name)
      : chain_(chain), base_(tensors, kernels), target_(tensors, kernels), name_(std::move(name)) {}

  Status add_skips(std::uint64_t length, std::uint64_t first, std::uint64_t last) {
    std::uint64_t number = (first + length + kSkipEvery - 1) / kSkipEvery * kSkipEvery;
    for (; number <= last; number += kSkipEvery) {
      SPARCL_ASSIGN_OR_RETURN(const auto there, chain_.shortcut(number, number - length));
      if (!there) SPARCL_RETURN_IF_ERROR(add(number, number - length));
    }
    return {};
  }
  // Of an independent chain.
  Status add_skips_from_anchors(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t number = first; number <= last; ++number) {
      SPARCL_ASSIGN_OR_RETURN(const VersionRecord record, chain_.record(number));
      if (!record.skips_from_anchor || record.newest_anchor < first) continue;
      SPARCL_ASSIGN_OR_RETURN(const auto there, chain_.shortcut(number, record.newest_anchor));
      if (!there) SPARCL_RETURN_IF_ERROR(add(number, record.newest_anchor));
    }
    return {};
  }
  Status add_anchor(const VersionRecord& record) {
    if (record.number == 1) return {};
    SPARCL_ASSIGN_OR_RETURN(const auto there, chain_.shortcut(record.number, 0));
    return there ? Status() : add(record.number, 0);
  }
  std::uint64_t added() const { return added_; }

 private:
  Status add(std::uint64_t number, std::uint64_t from) {
    SPARCL_ASSIGN_OR_RETURN(const VersionRecord record, chain_.record(number));
    SPARCL_RETURN_IF_ERROR(target_.go_to(chain_, record));
    Shortcut made;
    made.number = number;
    made.from = from;
    made.target = record.target();
    made.model_id = record.model_id;
    SPARCL_ASSIGN_OR_RETURN(const Hash128 hash, from == 0 ? put_anchor(made) : put_skip(made));
    if (hash != made.target.hash)
      return Status(Code::kCorrupt, fmt::format("version {} is not what its record says: verify "
                                                "the store",
                                                record.version));
    return chain_.add(made);
  }

  // Both put the object, which leads to the target's version, and return the hash of that.
  Result<Hash128> put_anchor(Shortcut& made) {
    const std::string key = new_object_key("anchors", made.number, 0, name_, ++added_);
    SPARCL_ASSIGN_OR_RETURN(PutAnchor put, store::put_anchor(chain_.store(), key, target_.state(),
                                                             made.target.version));
    made.object = std::move(put.object);
    made.index = std::move(put.index);
    return put.hash;
  }
  Result<Hash128> put_skip(Shortcut& made) {
    SPARCL_ASSIGN_OR_RETURN(const VersionRecord first, chain_.record(made.from));
    SPARCL_RETURN_IF_ERROR(base_.go_to(chain_, first));
    made.base = first.target();
    const ChainState& state = target_.state();
    codec::EncodeOptions options = encode_options(state, made.base, made.target.version);
    set_effort(options, EffortChoice(chain_.store().link()).next());
    codec::UpdateEncoder encoder(*state.map, readable(base_.state().arrays), readable(state.arrays),
                                 options, *state.kernels);
    const std::string key = new_object_key("skips", made.number, made.from, name_, ++added_);
    SPARCL_ASSIGN_OR_RETURN(made.object, put_update(chain_.store(), key, state, encoder));
    return encoder.stats().target_hash;
  }

  Chain& chain_;
  Copy base_, target_;
  std::string name_;
  std::uint64_t added_ = 0;
};

// The first record after an anchor has no skip from there: the one before it tells.
Result<bool> is_independent(const Chain& chain, const VersionRecord& newest) {
  if (newest.skips_from_anchor || newest.newest_anchor + 1 != newest.number)
    return newest.skips_from_anchor;
  SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> before,
                          chain.look(newest.newest_anchor));
  return before && before->skips_from_anchor;
}

}  // namespace

Result<std::uint64_t> compact(Chain& chain, const kernels::KernelSet& kernels,
                              std::int64_t lease_s) {
  SPARCL_ASSIGN_OR_RETURN(std::optional<VersionRecord> newest, chain.newest());
  if (!newest) return std::uint64_t{0};
  SPARCL_RETURN_IF_ERROR(chain.trust()->check_keys(*newest));
  SPARCL_ASSIGN_OR_RETURN(const auto lease, HeldLease::hold(chain.store(), lease_s));
  SPARCL_ASSIGN_OR_RETURN(newest, chain.newest());  // it may have been removed meanwhile
  const std::uint64_t first = lease->first();
  SPARCL_ASSIGN_OR_RETURN(const Tensors tensors, tensors_of(chain, newest->schema));
  SPARCL_ASSIGN_OR_RETURN(std::string name, random_name());
  Compactor compactor(chain, tensors, kernels, std::move(name));
  SPARCL_ASSIGN_OR_RETURN(const bool has_skips_from_anchors, is_independent(chain, *newest));
  if (has_skips_from_anchors) {
    SPARCL_RETURN_IF_ERROR(compactor.add_skips_from_anchors(first, newest->number));
  } else {
    std::vector<std::uint64_t> lengths(std::begin(kSkips), std::end(kSkips));
    std::ranges::reverse(lengths);  // short ones help to make the long ones
    for (const std::uint64_t length : lengths)
      SPARCL_RETURN_IF_ERROR(compactor.add_skips(length, first, newest->number));
  }
  SPARCL_RETURN_IF_ERROR(compactor.add_anchor(*newest));
  return compactor.added();
}

}  // namespace sparcl::store
