#include "src/store/stored_schema.hpp"

#include "src/store/stored_object.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kMaxSchemaBytes = std::uint64_t{1} << 30;

}  // namespace

Result<StoredSchema> read_schema(const Chain& chain, const StoredObject& schema) {
  StoredSchema read;
  SPARCL_ASSIGN_OR_RETURN(const Staging bytes, get_object(chain.store(), schema, kMaxSchemaBytes));
  read.bytes.resize(static_cast<std::size_t>(schema.bytes));
  bytes.copy(0, read.bytes.size(), read.bytes.data());
  Result<model::Schema> parsed = model::parse_schema(read.bytes);
  if (!parsed.ok())
    return parsed.status().with_prefix(chain.store().location_of(schema.key) + ": ");
  read.tensors = std::move(*parsed);
  return read;
}

}  // namespace sparcl::store
