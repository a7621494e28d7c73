#include "src/sparse/selection/feedback_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "src/base/checksum.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/text.hpp"

namespace sparcl::sparse {
namespace {

constexpr const char* kTensor = "residual";
constexpr const char* kFormatKey = "sparcl_feedback";
constexpr const char* kFormat = "1";
constexpr const char* kTypeKey = "datatype";
constexpr const char* kMinKey = "threshold_key";
constexpr const char* kHashKey = "xxh3";

// The hash of all loaded data.
std::string hash_of(DataType type, std::uint64_t least, std::span<const std::byte> residual) {
  const std::string facts =
      fmt::format("{} {} {} {};", kFormat, info(type).name, residual.size(), least);
  Xxh3 hash;
  hash.update(std::as_bytes(std::span(facts)));
  hash.update(residual);
  return to_hex(hash.finish());
}

Status corrupt(const std::string& path, const std::string& what) {
  return Status(Code::kCorrupt, fmt::format("{}: {}", path, what));
}

const DataTypeInfo* find_type(std::string_view name) {
  for (int number = 0; number <= static_cast<int>(DataType::kBool); ++number) {
    const DataTypeInfo* type = find_data_type(number);
    if (type != nullptr && type->name == name) return type;
  }
  return nullptr;
}

struct Facts {
  DataType type;
  std::uint64_t least;
  std::string hash;
};

Result<Facts> read_facts(const std::string& path, const model::Metadata& metadata) {
  const std::string* format = model::find_metadata(metadata, kFormatKey);
  if (format == nullptr) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: it is a safetensors file, but no feedback that sparclFeedbackSave wrote",
                    path));
  }
  if (*format != kFormat) {
    return Status(Code::kUnsupported,
                  fmt::format("{}: feedback of format {}, this version reads {}", path,
                              model::in_quotes(*format), kFormat));
  }
  for (const char* key : {kTypeKey, kMinKey, kHashKey}) {
    if (model::find_metadata(metadata, key) == nullptr)
      return corrupt(path, fmt::format("its metadata has no {}", key));
  }
  const std::string &name = *model::find_metadata(metadata, kTypeKey),
                    &digits = *model::find_metadata(metadata, kMinKey);
  const DataTypeInfo* type = find_type(name);
  if (type == nullptr)
    return corrupt(path, fmt::format("{} is no data type", model::in_quotes(name)));
  Facts facts{type->type, 0, *model::find_metadata(metadata, kHashKey)};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), facts.least);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return corrupt(path, fmt::format("its {} {} is no number", kMinKey, model::in_quotes(digits)));
  }
  return facts;
}

}  // namespace

Status save_feedback(const Feedback& feedback, const std::string& path) {
  const model::Schema schema{{kTensor, feedback.residual_type(), {feedback.count()}}};
  const std::span bytes(feedback.residual(), feedback.residual_bytes());
  const model::Metadata metadata{{kFormatKey, kFormat},
                                 {kTypeKey, std::string(info(feedback.type()).name)},
                                 {kMinKey, std::to_string(feedback.least)},
                                 {kHashKey, hash_of(feedback.type(), feedback.least, bytes)}};
  const std::byte* tensors[] = {feedback.residual()};
  return model::write_safetensors(path, schema, tensors, metadata);
}

Result<Feedback> load_feedback(const std::string& path) {
  const Result<model::Checkpoint> file = model::Checkpoint::open(path);
  if (!file.ok()) return file.status();
  if (file->layout().is_folder)
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: it is a folder, a feedback is one file", path));
  SPARCL_ASSIGN_OR_RETURN(const Facts facts, read_facts(path, file->metadata(0)));
  const model::Schema& schema = file->schema();
  if (schema.size() != 1 || schema[0].name != kTensor || schema[0].shape.size() != 1) {
    return corrupt(path, fmt::format("a feedback is one tensor, {}, of one dimension", kTensor));
  }
  // The header's check has compared the shape with the file's size: no more memory is taken than
  // that.
  Result<Feedback> feedback = Feedback::create(schema[0].shape[0], facts.type);
  if (!feedback.ok()) return corrupt(path, feedback.status().message());
  if (schema[0].datatype != feedback->residual_type()) {
    return corrupt(
        path, fmt::format("the residual of {} is {}, not {}", info(facts.type).name,
                          info(feedback->residual_type()).name, info(schema[0].datatype).name));
  }
  std::memcpy(feedback->residual(), file->bytes(0).data(), feedback->residual_bytes());
  const std::string hash =
      hash_of(facts.type, facts.least, {feedback->residual(), feedback->residual_bytes()});
  if (hash != facts.hash) {
    return corrupt(path, fmt::format("its bytes are damaged: their hash is {}, not {}", hash,
                                     model::in_quotes(facts.hash)));
  }
  feedback->least = facts.least;
  return feedback;
}

}  // namespace sparcl::sparse
