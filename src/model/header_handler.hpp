#pragma once
// Turns the events of a JSON parser into the entries of a safetensors header. It uses events, not a
// tree: a tree hides duplicate keys, and grows with the size of a hostile header. Wrong nesting is
// refused at the event that opens it.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/safetensors_header.hpp"

namespace sparcl::model {

struct RawTensor {  // as read: its offsets are not checked yet
  TensorSchema schema;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override;  // metadata may be null: then there is none
  bool boolean(bool) override { return wrong("a boolean"); }
  bool number_integer(number_integer_t value) override {
    return wrong(std::to_string(value) + " (negative)");
  }
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t, const string_t& text) override {
    return wrong(text + " (no 64-bit integer)");
  }
  bool string(string_t& value) override;
  bool binary(binary_t&) override { return wrong("binary data"); }
  bool start_object(std::size_t) override;
  bool key(string_t& value) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override;

  std::vector<RawTensor> take_tensors() { return std::move(tensors_); }
  Metadata take_metadata() { return std::move(metadata_); }
  const Status& error() const { return error_; }

 private:
  enum class Place { kOutside, kRoot, kMetadata, kTensor, kInShape, kInOffsets };
  enum Field : unsigned { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4 };

  bool refuse(Code code, std::string what);
  bool wrong(std::string_view found);  // a value of the wrong type for its position
  std::string where() const;           // "tensor 'x'", "__metadata__" or "header"
  std::string demanded() const;        // "shape must hold non-negative integers"
  RawTensor& tensor() { return tensors_.back(); }

  Place place_ = Place::kOutside;
  std::string key_;         // key of the next value, at the root or in the metadata
  unsigned field_ = kNone;  // the same inside a tensor
  unsigned seen_ = 0;       // fields of this tensor that have been read
  unsigned offset_count_ = 0;
  bool seen_metadata_ = false;
  std::vector<RawTensor> tensors_;
  Metadata metadata_;
  Status error_;
};

}  // namespace sparcl::model
