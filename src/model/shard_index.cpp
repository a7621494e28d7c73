#include "src/model/shard_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/model/file_layout.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::size_t kMaxDepth =
    16;  // of entries that are skipped; the weight map itself is at depth 2

// Events, so that duplicate keys are seen and skipped entries cost nothing.
class IndexHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool start_array(std::size_t) override { return open("an array"); }
  bool end_array() override { return close(); }
  bool end_object() override { return close(); }

  bool start_object(std::size_t) override {
    if (depth_ == 1 && key_ == "weight_map") {
      if (seen_map_) return refuse("weight_map is there twice");
      seen_map_ = in_map_ = true;
      ++depth_;
      return true;
    }
    if (depth_ == 1) in_metadata_ = key_ == "metadata";
    return open("an object");
  }

  bool key(string_t& value) override {
    if (in_map_ || depth_ == 1 || is_of_metadata()) key_ = std::move(value);
    return true;
  }

  bool string(string_t& value) override {
    if (is_of_metadata()) {
      index_.metadata.emplace_back(key_, std::move(value));
      return true;
    }
    if (!in_map_) return scalar();
    index_.weight_map.emplace_back(std::move(key_), std::move(value));
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    return refuse(fmt::format("no valid JSON at byte {}: {}", position, in_quotes(error.what())));
  }

  bool seen_map() const { return seen_map_; }
  const Status& error() const { return error_; }
  ShardIndex take() { return std::move(index_); }

 private:
  bool refuse(std::string what) {
    error_ = Status(Code::kCorrupt, std::move(what));
    return false;
  }

  bool scalar() {
    if (in_map_)
      return refuse(
          fmt::format("weight_map: the file of tensor {} must be a string", in_quotes(key_)));
    return depth_ != 1 || key_ != "weight_map" || refuse("weight_map must be an object");
  }

  bool open(std::string_view what) {
    if (in_map_)
      return refuse(fmt::format("weight_map: the file of tensor {} must be a string, not {}",
                                in_quotes(key_), what));
    if (depth_ == 1 && key_ == "weight_map") return refuse("weight_map must be an object");
    return ++depth_ <= kMaxDepth || refuse(fmt::format("it is nested deeper than {}", kMaxDepth));
  }

  bool close() {
    --depth_;
    in_map_ = false;
    in_metadata_ = in_metadata_ && depth_ > 1;
    return true;
  }

  bool is_of_metadata() const { return in_metadata_ && depth_ == 2; }

  std::size_t depth_ = 0;
  bool in_map_ = false;
  bool seen_map_ = false;
  bool in_metadata_ = false;
  std::string key_;
  ShardIndex index_;
  Status error_;
};

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view json) {
  if (json.find('\0') != json.npos || json.empty() || json.front() != '{') {
    return Status(Code::kCorrupt,
                  "it must be one JSON object that begins with '{' and holds no NUL");
  }
  IndexHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) return handler.error();
  if (!handler.seen_map()) return Status(Code::kCorrupt, "weight_map is missing");

  ShardIndex index = handler.take();
  std::sort(index.weight_map.begin(), index.weight_map.end());
  for (std::size_t i = 0; i < index.weight_map.size(); ++i) {
    const auto& [tensor, file] = index.weight_map[i];
    if (i > 0 && tensor == index.weight_map[i - 1].first) {
      return Status(Code::kCorrupt,
                    fmt::format("weight_map lists tensor {} twice", in_quotes(tensor)));
    }
    SPARCL_RETURN_IF_ERROR(check_shard_name(file).with_prefix(
        fmt::format("weight_map: the file of tensor {}: ", in_quotes(tensor))));
    index.files.push_back(file);
  }
  std::sort(index.files.begin(), index.files.end());
  index.files.erase(std::unique(index.files.begin(), index.files.end()), index.files.end());
  return index;
}

}  // namespace sparcl::model
