#include "tools/sparcl/part_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <locale>
#include <regex>

#include "src/model/text.hpp"

namespace sparcl::tool {
namespace {

struct Cut {
  std::regex names;
  std::size_t dimension = 0;
  std::uint64_t index = 0;
  std::uint64_t parts = 1;
};

Result<std::regex> to_regex(const std::string& text) {
  try {
    std::regex names;
    names.imbue(std::locale::classic());
    names.assign(text, std::regex::ECMAScript | std::regex::optimize);
    return names;
  } catch (const std::regex_error& error) {
    return Status(Code::kInvalidArgument,
                  fmt::format("'{}' is no regular expression: {}", text, error.what()));
  }
}

// std::regex takes stack for each character: a tensor with a longer name is not chosen.
constexpr std::size_t kLongestName = 1000;

bool has_name(const model::TensorSchema& tensor, const std::regex& names) {
  return tensor.name.size() <= kLongestName && std::regex_search(tensor.name, names);
}

template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Names may hold colons.
Result<Cut> parse_cut(const std::string& text) {
  const Status fault(
      Code::kInvalidArgument,
      fmt::format("'{}' is no slice: REGEX:DIM:INDEX/PARTS is, as in 'q_proj|k_proj:0:3/8'", text));
  const std::size_t second = text.rfind(':');
  const std::size_t first =
      second == std::string::npos || second == 0 ? std::string::npos : text.rfind(':', second - 1);
  if (first == std::string::npos) return fault;
  const std::string_view part = std::string_view(text).substr(second + 1);
  const std::size_t stroke = part.find('/');
  if (stroke == std::string_view::npos) return fault;
  SPARCL_ASSIGN_OR_RETURN(std::regex names, to_regex(text.substr(0, first)));
  Cut cut;
  cut.names = std::move(names);
  if (!read_number(std::string_view(text).substr(first + 1, second - first - 1), cut.dimension) ||
      !read_number(part.substr(0, stroke), cut.index) ||
      !read_number(part.substr(stroke + 1), cut.parts) || cut.index >= cut.parts) {
    return fault;
  }
  return cut;
}

Status cut_tensor(model::TensorSchema& tensor, const Cut& cut, const std::string& text) {
  const std::string who = fmt::format("--slice {}: tensor {}", text, model::in_quotes(tensor.name));
  if (tensor.slice)
    return Status(Code::kInvalidArgument, fmt::format("{} is a slice already", who));
  if (tensor.opaque && cut.parts > 1) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{} is {}: tensors of this type are kept whole: leave it out of the expression",
                    who, describe_kind(tensor)));
  }
  if (cut.dimension >= tensor.shape.size()) {
    return Status(Code::kInvalidArgument, fmt::format("{} is {}: it has no dimension {}", who,
                                                      describe_kind(tensor), cut.dimension));
  }
  const std::uint64_t extent = tensor.shape[cut.dimension];
  if (extent % cut.parts != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} is {}: its dimension {} cannot be cut into {} equal parts", who,
                              describe_kind(tensor), cut.dimension, cut.parts));
  }
  if (cut.parts == 1) return {};
  tensor.slice =
      model::TensorSlice{std::vector<std::uint64_t>(tensor.shape.size(), 0), tensor.shape};
  tensor.slice->begin[cut.dimension] = extent / cut.parts * cut.index;
  tensor.slice->extent[cut.dimension] = extent / cut.parts;
  return {};
}

// Empty, or why the text is no valid choice.
std::string tensors_fault(const std::string& text) { return to_regex(text).status().message(); }
std::string slice_fault(const std::string& text) { return parse_cut(text).status().message(); }

}  // namespace

void add_part_options(CLI::App& app, PartChoice& parts) {
  app.add_option(
         "--tensors", parts.tensors,
         "keep only tensors whose names match this regular expression; may be given more than once")
      ->type_name("REGEX")
      ->check(tensors_fault, "", "")
      ->take_all();
  app.add_option(
         "--slice", parts.slices,
         "of tensors that match, keep part INDEX (from 0) of PARTS equal ones along dimension DIM; "
         "may be given more than once. FILE has it as a tensor, and only parts travel")
      ->type_name("REGEX:DIM:INDEX/PARTS")
      ->check(slice_fault, "", "")
      ->take_all();
}

Result<model::Schema> choose_parts(const model::Schema& published, const PartChoice& choice) {
  model::Schema chosen = published;
  if (!choice.tensors.empty()) {
    chosen.clear();
    std::vector<bool> is_chosen(published.size());
    for (const std::string& text : choice.tensors) {
      const Result<std::regex> names = to_regex(text);
      if (!names.ok()) return names.status().with_prefix("--tensors: ");
      bool is_any = false;
      for (std::size_t i = 0; i < published.size(); ++i) {
        if (!has_name(published[i], *names)) continue;
        is_any = is_chosen[i] = true;
      }
      if (!is_any)
        return Status(Code::kInvalidArgument,
                      fmt::format("--tensors {}: no tensor has such a name", text));
    }
    for (std::size_t i = 0; i < published.size(); ++i) {
      if (is_chosen[i]) chosen.push_back(published[i]);
    }
  }
  for (const std::string& text : choice.slices) {
    const Result<Cut> cut = parse_cut(text);
    if (!cut.ok()) return cut.status().with_prefix("--slice: ");
    bool is_any = false;
    for (model::TensorSchema& tensor : chosen) {
      if (!has_name(tensor, cut->names)) continue;
      is_any = true;
      SPARCL_RETURN_IF_ERROR(cut_tensor(tensor, *cut, text));
    }
    if (!is_any)
      return Status(Code::kInvalidArgument,
                    fmt::format("--slice {}: no chosen tensor has such a name", text));
  }
  return chosen;
}

model::Schema as_tensors(const model::Schema& held) {
  model::Schema tensors = held;
  for (model::TensorSchema& tensor : tensors) {
    tensor.shape = tensor.held_shape();
    tensor.slice.reset();
  }
  return tensors;
}

}  // namespace sparcl::tool
