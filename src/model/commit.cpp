#include "src/model/commit.hpp"

#include <algorithm>
#include <string_view>

#include "src/model/fields.hpp"

namespace sparcl::model {
namespace {

// So that a signature of a commit is none of anything else.
constexpr std::string_view kContext = "sparcl commit 2\n";
static_assert(kContext.size() == 16);

}  // namespace

std::vector<std::byte> serialise(const Commit& commit) {
  ByteWriter out;
  out.write_bytes(std::as_bytes(std::span(kContext)));
  write_text(out, commit.model_id);
  out.write(commit.epoch);
  out.write(commit.base_version);
  out.write(commit.version);
  write_flag(out, commit.is_anchor);
  write_hash(out, commit.schema_hash);
  write_hash(out, commit.base_hash);
  write_hash(out, commit.target_hash);
  out.write(commit.elements);
  out.write(commit.changed);
  out.write(commit.stream_bytes);
  out.write_bytes(commit.stream_digest);
  return out.take();
}

bool read_commit(ByteReader& bytes, Commit& commit) {
  std::span<const std::byte> context;
  if (!bytes.read_bytes(kContext.size(), context) ||
      !std::ranges::equal(context, std::as_bytes(std::span(kContext))))
    return false;
  return read_text(bytes, commit.model_id) && bytes.read(commit.epoch) &&
         bytes.read(commit.base_version) && bytes.read(commit.version) &&
         read_flag(bytes, commit.is_anchor) && read_hash(bytes, commit.schema_hash) &&
         read_hash(bytes, commit.base_hash) && read_hash(bytes, commit.target_hash) &&
         bytes.read(commit.elements) && bytes.read(commit.changed) &&
         bytes.read(commit.stream_bytes) && read_array(bytes, commit.stream_digest);
}

}  // namespace sparcl::model
