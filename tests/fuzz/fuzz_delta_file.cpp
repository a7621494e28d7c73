// A delta file against a small checkpoint: refused, or applied to a state whose hash is what the
// delta says. Nothing is written to the file that the state was opened from.

#include <cstring>

#include "src/model/checkpoint_writer.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/files/held_state.hpp"
#include "src/model/model_hash.hpp"
#include "tests/codec/oracle/mend.hpp"
#include "tests/fuzz/tiny_updates.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::fuzz {
namespace {

struct Tensors {
  model::Schema schema;
  std::vector<Bytes> bytes;
};

Tensors small_tensors(model::Schema schema, std::uint64_t seed) {
  Tensors tensors{std::move(schema), {}};
  Random random(seed);
  for (const model::TensorSchema& tensor : tensors.schema) {
    Bytes& bytes =
        tensors.bytes.emplace_back(*model::element_count(tensor) * element_bytes(tensor.datatype));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  }
  return tensors;
}

void write(const std::string& path, const Tensors& tensors, const model::Metadata& metadata) {
  std::vector<const std::byte*> pointers;
  for (const Bytes& bytes : tensors.bytes) pointers.push_back(bytes.data());
  require(model::write_safetensors(path, tensors.schema, pointers, metadata).ok(),
          "a checkpoint can be written");
}

const model::Schema kSchema{{"embed", DataType::kBfloat16, {10, 6}},
                            {"norm", DataType::kFloat32, {7}},
                            {"step", DataType::kInt64, {}}};

// Files of the base, and deltas to several targets.
class Workshop {
 public:
  Workshop() : base_path_(folder_ / "base.safetensors") {
    const Tensors base = small_tensors(kSchema, 1);
    write(base_path_, base, {{"step", "1"}});
    Tensors changed = base;
    for (const std::size_t at : {4, 30, 31, 60, 110}) changed.bytes[0][at] ^= std::byte{1};
    add(changed, {{"step", "1"}});
    add(changed, {{"step", "2"}, {"note", "x"}});
    add(base, {{"step", "1"}});
    changed.bytes[1] = small_tensors(kSchema, 3).bytes[1];
    changed.schema.push_back({"new", DataType::kUint8, {5}});
    changed.bytes.emplace_back(5, std::byte{9});
    changed.schema.erase(changed.schema.begin() + 2);
    changed.bytes.erase(changed.bytes.begin() + 2);
    add(changed, {});
  }

  const std::string& base_path() const { return base_path_; }
  const std::vector<Bytes>& deltas() const { return deltas_; }

 private:
  void add(const Tensors& target, const model::Metadata& metadata) {
    const std::string target_path = folder_ / "target.safetensors";
    const std::string delta_path = folder_ / "delta";
    write(target_path, target, metadata);
    require(model::make_delta(base_path_, target_path, delta_path).ok(), "a delta can be made");
    deltas_.push_back(bytes_of(test::read_text(delta_path)));
  }

  test::TempFolder folder_;
  std::string base_path_;
  std::vector<Bytes> deltas_;
};

const Workshop& workshop() {
  static const Workshop one;
  return one;
}

void run(std::span<const std::byte> input) {
  model::Delta delta;
  delta.path = "delta";
  delta.bytes = input.size();
  delta.staging.write(0, input);
  const Result<model::DeltaSummary> summary = model::scan_delta(delta);
  if (!summary.ok()) return;
  Result<model::HeldState> state = model::HeldState::open(workshop().base_path());
  require(state.ok(), "the base can be opened: " + state.status().message());
  const Status status = state->apply(delta);
  require(status.code() != Code::kInternalError,
          "a delta is refused before it is applied: " + status.message());
  if (!status.ok()) return;
  require(summary->target_hash && state->hash() == *summary->target_hash,
          "an accepted delta leads to its target");
  const auto hash = model::state_hash(state->view().schema, state->view().tensors);
  require(hash.ok() && *hash == state->hash(), "the state has the hash that it says");
}

std::vector<Bytes> seeds() { return workshop().deltas(); }

// Mended for the base's own tensors; deltas to other lists of tensors keep their checks as they
// are.
void mend(codec::RawStream& stream) {
  static const Result<model::Checkpoint> base = model::Checkpoint::open(workshop().base_path());
  oracle::Receiver receiver{{}, {}, oracle::Check::kOff};
  const Hash128 schema = model::schema_hash(base->schema());
  receiver.schema = {schema.low, schema.high};
  std::vector<oracle::Bytes> held;
  for (std::size_t i = 0; i < base->schema().size(); ++i) {
    const model::TensorSchema& tensor = base->schema()[i];
    receiver.arrays.push_back(
        {static_cast<std::uint8_t>(tensor.datatype), *model::element_count(tensor)});
    held.emplace_back(base->bytes(i).begin(), base->bytes(i).end());
  }
  mend_for(stream, receiver, held);
}

Bytes mutate(const Bytes& input, ByteMutation mutate_bytes, Random& random) {
  return mutate_stream(input, mutate_bytes, random, mend);
}

const Registration registration({"delta_file", run, seeds, mutate});

}  // namespace
}  // namespace sparcl::fuzz
