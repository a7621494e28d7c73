#pragma once
// A JSON object. A publisher in a trainer's process does not use
// nlohmann::json to write: its destructor takes memory, and ends the process where there is none.

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sparcl::replication {

class ReportFields {
 public:
  class Value {  // as JSON
   public:
    Value() = default;
    Value(bool value) : text_(value ? "true" : "false") {}
    template <std::integral Integer>
    Value(Integer value) : text_(std::to_string(value)) {}
    Value(double value);
    // Control characters and quotes are escaped; bytes that are no UTF-8 become U+FFFD and two
    // hexadecimal digits each (as_utf8()).
    Value(std::string_view text);
    Value(const std::string& text) : Value(std::string_view(text)) {}
    Value(const char* text) : Value(std::string_view(text)) {}
    Value(const ReportFields& object) : text_(object.text()) {}
    const std::string& text() const { return text_; }

   private:
    std::string text_ = "null";
  };
  using Field = std::pair<const char*, Value>;

  ReportFields() = default;
  ReportFields(std::initializer_list<Field> fields) : fields_(fields) {}

  // A new field, behind the others: it is assigned once.
  Value& operator[](const char* name) { return fields_.emplace_back(name, Value()).second; }

  std::string text() const;  // {"name":value,...}

 private:
  std::vector<Field> fields_;
};

}  // namespace sparcl::replication
