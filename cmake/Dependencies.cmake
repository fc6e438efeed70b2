# Every third party. Debian packages through find_package; ggml and llama from one pinned source archive, which
# `./dev setup` unpacks into the cache outside the tree (docs/decisions/0001-dependencies.md).
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CURL REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(PNG REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
if(TESSERA_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(tessera_xxhash INTERFACE)
target_include_directories(tessera_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})

# TESSERA_LLAMA_SOURCE: the llama.cpp folder of the unpacked archive.
set(TESSERA_LLAMA_VERSION 0.3.36)
if(DEFINED ENV{TESSERA_CACHE})
  set(tessera_cache $ENV{TESSERA_CACHE})
else()
  set(tessera_cache $ENV{HOME}/.cache/tessera)
endif()
set(TESSERA_LLAMA_SOURCE ${tessera_cache}/src/llama_cpp_python-${TESSERA_LLAMA_VERSION}/vendor/llama.cpp
    CACHE PATH "llama.cpp source tree")
if(NOT EXISTS ${TESSERA_LLAMA_SOURCE}/CMakeLists.txt)
  message(FATAL_ERROR "no llama.cpp source at ${TESSERA_LLAMA_SOURCE}: run ./dev setup, which fetches and checks it")
endif()

if(TESSERA_SYSTEM_LLAMA)
  find_package(ggml REQUIRED)
  find_package(llama REQUIRED)
else()
  set(BUILD_SHARED_LIBS OFF CACHE BOOL "" FORCE)
  set(GGML_OPENMP ${TESSERA_OPENMP} CACHE BOOL "" FORCE)
  set(GGML_CCACHE OFF CACHE BOOL "" FORCE)      # ./dev sets the compiler launcher for everything
  set(GGML_LLAMAFILE ON CACHE BOOL "" FORCE)    # tinyBLAS; on in llama.cpp's own builds too
  set(LLAMA_OPENSSL OFF CACHE BOOL "" FORCE)
  add_subdirectory(${TESSERA_LLAMA_SOURCE} ${CMAKE_BINARY_DIR}/llama EXCLUDE_FROM_ALL)
  foreach(target ggml ggml-base ggml-cpu llama)  # our warnings are not for their headers
    get_target_property(dirs ${target} INTERFACE_INCLUDE_DIRECTORIES)
    set_target_properties(${target} PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${dirs}")
    target_compile_options(${target} PRIVATE -w)
  endforeach()
endif()

# The jinja engine of the same source, alone: the `common` library around it also brings an HTTP client and more.
file(GLOB jinja_sources ${TESSERA_LLAMA_SOURCE}/common/jinja/*.cpp)
add_library(tessera_jinja STATIC EXCLUDE_FROM_ALL ${jinja_sources}
            ${TESSERA_LLAMA_SOURCE}/common/json.cpp ${TESSERA_LLAMA_SOURCE}/common/unicode.cpp)
target_include_directories(tessera_jinja SYSTEM PUBLIC ${TESSERA_LLAMA_SOURCE}/common ${TESSERA_LLAMA_SOURCE}/vendor)
target_compile_features(tessera_jinja PUBLIC cxx_std_20)
target_link_libraries(tessera_jinja PUBLIC ggml)
