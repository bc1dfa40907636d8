# The fuzz targets: every spec/fuzz/<name>_fuzz.c is a libFuzzer program, <name>_fuzz, in build/fuzz. The
# inputs worth keeping are in spec/fuzz/corpus/<name>/. scripts/fuzz runs them, and one input again is
#   build-fuzz/fuzz/<name>_fuzz <file>

if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "CHAMVI_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
endif()

chamvi_layer_library(supervisor)
list(PREPEND CHAMVI_LIBRARIES chamvi_supervisor)

foreach(layer IN LISTS CHAMVI_LAYERS)
    if(TARGET chamvi_${layer})
        target_compile_options(chamvi_${layer} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
endforeach()

# What several targets share. It comes before the layers: some of it stands in for parts of them.
file(GLOB support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/spec/fuzz/support/*.c)
add_library(fuzz_support STATIC ${support})
target_include_directories(fuzz_support PUBLIC
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/spec/fuzz)
target_compile_options(fuzz_support PRIVATE -fsanitize=fuzzer-no-link)
target_link_libraries(fuzz_support PUBLIC ${CHAMVI_LIBRARIES})

file(GLOB targets CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/spec/fuzz/*_fuzz.c)
foreach(source IN LISTS targets)
    get_filename_component(program ${source} NAME_WE)
    add_executable(${program} ${source})
    target_compile_options(${program} PRIVATE -fsanitize=fuzzer)
    target_link_options(${program} PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${program} PRIVATE fuzz_support)
    set_target_properties(${program} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
endforeach()

# The oracle for HTTP. (It is no part of the library: its upstream has ended.)
find_library(HTTP_PARSER http_parser REQUIRED)
target_link_libraries(http_upgrade_fuzz PRIVATE ${HTTP_PARSER})

# The oracle for names of refs.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBGIT2 REQUIRED IMPORTED_TARGET libgit2)
target_link_libraries(git_ref_fuzz PRIVATE PkgConfig::LIBGIT2)
