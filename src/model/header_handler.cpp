#include "src/model/header_handler.hpp"

#include <fmt/format.h>

#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

}  // namespace

bool HeaderHandler::null() {
  if (place_ != Place::kRoot || key_ != kMetadataKey) return wrong("null");
  if (seen_metadata_) return refuse(Code::kCorrupt, "it is there twice");
  seen_metadata_ = true;
  return true;
}

bool HeaderHandler::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::kInShape) {
    tensor().schema.shape.push_back(value);
    return true;
  }
  if (place_ != Place::kInOffsets) return wrong(fmt::format("the number {}", value));
  if (offset_count_ == 2)
    return refuse(Code::kCorrupt, "data_offsets must hold two numbers, not more");
  (offset_count_ == 0 ? tensor().begin : tensor().end) = value;
  ++offset_count_;
  return true;
}

bool HeaderHandler::string(string_t& value) {
  if (place_ == Place::kMetadata) {
    metadata_.emplace_back(std::move(key_), std::move(value));
    return true;
  }
  if (place_ != Place::kTensor || field_ != kDtype)
    return wrong(fmt::format("the string {}", in_quotes(value)));
  const DataTypeInfo* type = find_safetensors_type(value);
  if (type != nullptr) {
    tensor().schema.datatype = type->type;
  } else if (may_be_opaque_type(value)) {
    tensor().schema.opaque =
        OpaqueType{std::move(value), 0};  // its bytes are known with the offsets
  } else {
    return refuse(
        Code::kCorrupt,
        fmt::format("{} is no name of a data type: up to {} letters, digits and underscores are",
                    in_quotes(value), kMaxOpaqueName));
  }
  return true;
}

bool HeaderHandler::start_object(std::size_t) {
  if (place_ == Place::kOutside) {
    place_ = Place::kRoot;
    return true;
  }
  if (place_ != Place::kRoot) return wrong("an object");
  if (key_ == kMetadataKey) {
    place_ = Place::kMetadata;
    if (seen_metadata_) return refuse(Code::kCorrupt, "it is there twice");
    seen_metadata_ = true;
    return true;
  }
  if (const Status named = check_tensor_name(key_); !named.ok()) {
    error_ = Status(Code::kCorrupt, "header: " + named.message());
    return false;
  }
  place_ = Place::kTensor;
  seen_ = kNone;
  tensors_.emplace_back().schema.name = std::move(key_);
  return true;
}

bool HeaderHandler::key(string_t& value) {
  if (place_ != Place::kTensor) {
    key_ = std::move(value);
    return true;
  }
  field_ = value == "dtype"          ? kDtype
           : value == "shape"        ? kShape
           : value == "data_offsets" ? kOffsets
                                     : kNone;
  if (field_ == kNone)
    return refuse(Code::kCorrupt, fmt::format("unknown field {}", in_quotes(value)));
  if ((seen_ & field_) != 0) return refuse(Code::kCorrupt, fmt::format("{} is there twice", value));
  seen_ |= field_;
  return true;
}

bool HeaderHandler::end_object() {
  if (place_ == Place::kRoot) {
    place_ = Place::kOutside;
    return true;
  }
  for (const auto& [field, name] : {std::pair(kDtype, "dtype"), std::pair(kShape, "shape"),
                                    std::pair(kOffsets, "data_offsets")}) {
    if (place_ == Place::kTensor && (seen_ & field) == 0)
      return refuse(Code::kCorrupt, fmt::format("{} is missing", name));
  }
  place_ = Place::kRoot;
  return true;
}

bool HeaderHandler::start_array(std::size_t) {
  if (place_ != Place::kTensor || field_ == kDtype) return wrong("an array");
  place_ = field_ == kShape ? Place::kInShape : Place::kInOffsets;
  offset_count_ = 0;
  return true;
}

bool HeaderHandler::end_array() {
  if (place_ == Place::kInOffsets && offset_count_ != 2) {
    return refuse(Code::kCorrupt,
                  fmt::format("data_offsets must hold two numbers, not {}", offset_count_));
  }
  place_ = Place::kTensor;
  return true;
}

bool HeaderHandler::parse_error(std::size_t position, const std::string&,
                                const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 5: reason": the reason alone,
  // without the parser's own prefix.
  std::string_view reason = error.what();
  if (const std::size_t colon = reason.find(": "); colon != reason.npos)
    reason.remove_prefix(colon + 2);
  error_ = Status(Code::kCorrupt,
                  fmt::format("header: no valid JSON at byte {}: {}", position, in_quotes(reason)));
  return false;
}

bool HeaderHandler::refuse(Code code, std::string what) {
  error_ = Status(code, fmt::format("{}: {}", where(), what));
  return false;
}

bool HeaderHandler::wrong(std::string_view found) {
  return refuse(Code::kCorrupt, fmt::format("{}, not {}", demanded(), found));
}

std::string HeaderHandler::where() const {
  switch (place_) {
    case Place::kOutside:
      return "header";
    case Place::kRoot:
      return key_ == kMetadataKey ? key_ : fmt::format("tensor {}", in_quotes(key_));
    case Place::kMetadata:
      return std::string(kMetadataKey);
    default:
      return fmt::format("tensor {}", in_quotes(tensors_.back().schema.name));
  }
}

std::string HeaderHandler::demanded() const {
  switch (place_) {
    case Place::kOutside:
      return "it must be one object";
    case Place::kRoot:
      return "its value must be an object";
    case Place::kMetadata:
      return fmt::format("the value of {} must be a string", in_quotes(key_));
    case Place::kTensor:
      return field_ == kDtype ? "dtype must be a string"
                              : "shape and data_offsets must be arrays of integers";
    case Place::kInShape:
      return "shape must hold integers that are not negative";
    case Place::kInOffsets:
      return "data_offsets must hold integers that are not negative";
  }
  return "it must be something else";
}

}  // namespace sparcl::model
