#pragma once

namespace sparcl {

// Removes a file, or a folder with all that it holds; symbolic links themselves, not what they lead
// to. Takes no memory, so that unfinished output goes also where there is none left. opened: a
// descriptor, used if it is this folder's: no other may be had; or -1. False: something is still
// there.
bool remove_tree(const char* path, int opened = -1) noexcept;

}  // namespace sparcl
