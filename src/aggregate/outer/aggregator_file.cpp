#include "src/aggregate/outer/aggregator_file.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/text.hpp"

namespace sparcl::aggregate {
namespace {

constexpr const char* kFormatKey = "sparcl_aggregator";
constexpr const char* kFormat = "1";
constexpr const char* kFactsKey = "facts";
constexpr const char* kHashKey = "xxh3";
constexpr const char* kNone = "none";  // a tensor of no elements, as a file has one at least

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
double double_of(std::uint64_t bits) { return std::bit_cast<double>(bits); }

// Numbers in hexadecimal; of doubles their bits.
constexpr std::size_t kFacts = 19;
using Facts = std::array<std::uint64_t, kFacts>;

Facts facts_of(Aggregator& aggregator) {
  const AggregatorOptions& options = aggregator.options();
  const OuterOptions& outer = options.outer;
  const Shard* const shard = aggregator.shard();
  return {aggregator.count(),
          static_cast<std::uint64_t>(options.mean),
          static_cast<std::uint64_t>(outer.kind),
          bits_of(outer.learning_rate),
          bits_of(outer.momentum),
          bits_of(outer.beta2),
          bits_of(outer.epsilon),
          outer.delay,
          bits_of(outer.activation),
          static_cast<std::uint64_t>(options.screen.non_finite),
          bits_of(options.screen.clip.l2_norm),
          bits_of(options.screen.clip.median_factor),
          options.keep,
          static_cast<std::uint64_t>(options.wire),
          aggregator.stats().rounds,
          aggregator.has_range() ? 1U : 0U,
          shard != nullptr ? shard->options().first : 0,
          shard != nullptr ? shard->options().count : 0,
          shard != nullptr ? shard->steps() : 0};
}

AggregatorOptions options_of(const Facts& facts) {
  AggregatorOptions options;
  options.mean = static_cast<MeanKind>(facts[1]);
  options.outer = {static_cast<OuterKind>(facts[2]),
                   double_of(facts[3]),
                   double_of(facts[4]),
                   double_of(facts[5]),
                   double_of(facts[6]),
                   static_cast<std::uint32_t>(facts[7]),
                   double_of(facts[8])};
  options.screen = {static_cast<NonFinite>(facts[9]), {double_of(facts[10]), double_of(facts[11])}};
  options.keep = facts[12];
  options.wire = static_cast<sparse::Wire>(facts[13]);
  return options;
}

bool are_in_range(const Facts& facts) {
  return facts[1] <= static_cast<std::uint64_t>(MeanKind::kOverContributors) &&
         facts[2] <= static_cast<std::uint64_t>(OuterKind::kAdam) && facts[7] <= UINT32_MAX &&
         facts[9] <= static_cast<std::uint64_t>(NonFinite::kFail) &&
         facts[13] <= static_cast<std::uint64_t>(sparse::kLastWire) && facts[15] <= 1 &&
         facts[16] <= facts[0] && facts[17] <= facts[0] - facts[16];
}

std::string text_of(const Facts& facts) {
  std::string text;
  for (const std::uint64_t fact : facts) text += fmt::format("{:x} ", fact);
  return text;
}

std::optional<Facts> read_facts(std::string_view text) {
  Facts facts{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::uint64_t& fact : facts) {
    const auto [after, error] = std::from_chars(at, end, fact, 16);
    if (error != std::errc() || after == end || *after != ' ') return std::nullopt;
    at = after + 1;
  }
  if (at != end || !are_in_range(facts)) return std::nullopt;
  return facts;
}

std::string hash_of(std::string_view facts, std::span<const std::span<float>> arrays) {
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(facts)));
  for (const std::span<float> array : arrays) hash.update(std::as_bytes(array));
  return to_hex(hash.finish());
}

Status corrupt(const std::string& path, const std::string& what) {
  return Status(Code::kCorrupt, fmt::format("{}: {}", path, what));
}

// Copies the tensors of the file into the shard's arrays.
Status read_arrays(const std::string& path, const model::Checkpoint& file, Shard& shard) {
  const std::vector<std::string> names = Shard::array_names(shard.options());
  const std::vector<std::span<float>> arrays = shard.arrays();
  const model::Schema& schema = file.schema();
  if (schema.size() != std::max<std::size_t>(names.size(), 1))
    return corrupt(path, fmt::format("{} tensors, not {}", schema.size(), names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t at = 0;
    while (at < schema.size() && schema[at].name != names[i]) ++at;
    if (at == schema.size() || schema[at].datatype != DataType::kFloat32 ||
        file.bytes(at).size() != arrays[i].size_bytes())
      return corrupt(path, fmt::format("no tensor {} of {} float32", names[i], arrays[i].size()));
    std::memcpy(arrays[i].data(), file.bytes(at).data(), arrays[i].size_bytes());
  }
  return {};
}

}  // namespace

Status save_aggregator(Aggregator& aggregator, const std::string& path) {
  const std::string facts = text_of(facts_of(aggregator));
  model::Schema schema;
  std::vector<const std::byte*> tensors;
  std::vector<std::span<float>> arrays;
  if (Shard* const shard = aggregator.shard(); shard != nullptr) {
    arrays = shard->arrays();
    const std::vector<std::string> names = Shard::array_names(shard->options());
    for (std::size_t i = 0; i < names.size(); ++i) {
      schema.push_back({names[i], DataType::kFloat32, {arrays[i].size()}});
      tensors.push_back(reinterpret_cast<const std::byte*>(arrays[i].data()));
    }
  }
  static constexpr std::byte kNoBytes{};
  if (schema.empty()) {
    schema.push_back({kNone, DataType::kFloat32, {0}});
    tensors.push_back(&kNoBytes);
  }
  const model::Metadata metadata{
      {kFormatKey, kFormat}, {kFactsKey, facts}, {kHashKey, hash_of(facts, arrays)}};
  return model::write_safetensors(path, schema, tensors, metadata);
}

Result<Aggregator> load_aggregator(const std::string& path, const kernels::KernelSet& kernels) {
  const Result<model::Checkpoint> file = model::Checkpoint::open(path);
  if (!file.ok()) return file.status();
  if (file->layout().is_folder)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is a folder, an aggregator is one file", path));
  const model::Metadata metadata = file->metadata(0);
  const std::string *const format = model::find_metadata(metadata, kFormatKey),
                           *const text = model::find_metadata(metadata, kFactsKey),
                           *const hash = model::find_metadata(metadata, kHashKey);
  if (format == nullptr || text == nullptr || hash == nullptr)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is no file that sparclAggregatorSave wrote", path));
  if (*format != kFormat)
    return Status(Code::kUnsupported,
                  fmt::format("{}: an aggregator of format {}, this version reads {}", path,
                              model::in_quotes(*format), kFormat));
  const std::optional<Facts> facts = read_facts(*text);
  if (!facts) return corrupt(path, fmt::format("its metadata {} makes no sense", kFactsKey));
  Result<Aggregator> made = Aggregator::create((*facts)[0], options_of(*facts));
  if (!made.ok()) return corrupt(path, made.status().message());
  made->stats().rounds = (*facts)[14];
  std::vector<std::span<float>> arrays;
  if ((*facts)[15] != 0) {
    const AggregatorOptions& options = made->options();
    const std::size_t tensors =
        Shard::array_names(
            {.outer = options.outer, .has_cut = options.keep > 0, .wire = options.wire})
            .size();
    // No more memory is taken than the file has.
    if (tensors > 0 && (*facts)[17] > 0 && file->bytes(0).size() / sizeof(float) != (*facts)[17])
      return corrupt(path, "its tensors have another size than its metadata says");
    SPARCL_RETURN_IF_ERROR(made->take_range((*facts)[16], (*facts)[17], kernels));
  }
  if (Shard* const shard = made->shard(); shard != nullptr) {
    SPARCL_RETURN_IF_ERROR(read_arrays(path, *file, *shard));
    shard->set_steps((*facts)[18]);
    arrays = shard->arrays();
  }
  if (hash_of(*text, arrays) != *hash) return corrupt(path, "its bytes are damaged: another hash");
  return made;
}

}  // namespace sparcl::aggregate
