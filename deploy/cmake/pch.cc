// Owner of precompiled headers: CMake needs a source to compile them for.
