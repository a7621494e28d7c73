#pragma once

namespace sparcl {

// Removes a file, or a folder with its contents. A symbolic link itself is removed, not its target.
// Takes no memory, so that unfinished output is removed even if none is left. opened: a descriptor,
// used if it is this folder's, because no other may be available; or -1. False: something is still
// there.
bool remove_tree(const char* path, int opened = -1) noexcept;

// Whether `opened` is a descriptor of the folder that has this name now. A folder that was
// exchanged with another keeps its descriptor, and not its name.
bool is_that_folder(int opened, const char* path) noexcept;

}  // namespace sparcl
