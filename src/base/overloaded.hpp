#pragma once

namespace sparcl {

// One visitor out of several lambdas, for std::visit.
template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <class... Visitors>  // clang 14 does not deduce it by itself
Overloaded(Visitors...)->Overloaded<Visitors...>;

}  // namespace sparcl
