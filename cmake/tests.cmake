# The C tests: every spec/c/<name>_test.c is a cmocka program and one ctest, <name>. It sees all layers
# and is told in the environment where the supervisor is: CHAMVI_SUPERVISOR. A program that exits with
# 77 counts as skipped. What several tests share lies in spec/c/support/.

enable_testing()
find_package(PkgConfig REQUIRED)
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)

file(GLOB support CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/spec/c/support/*.c)
file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/spec/c/*_test.c)

add_library(test_support STATIC ${support})
target_include_directories(test_support PUBLIC
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/spec/c)
target_link_libraries(test_support PUBLIC ${CHAMVI_LIBRARIES} PkgConfig::CMOCKA)

foreach(source IN LISTS tests)
    get_filename_component(program ${source} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${program})
    add_executable(${program} ${source})
    target_link_libraries(${program} PRIVATE test_support)
    set_target_properties(${program} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_dependencies(${program} supervisor)
    add_test(NAME ${name} COMMAND ${program})
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "CHAMVI_SUPERVISOR=${CHAMVI_SUPERVISOR}"
        SKIP_RETURN_CODE 77
        TIMEOUT 600)
endforeach()

# The oracle for names of refs.
pkg_check_modules(LIBGIT2 REQUIRED IMPORTED_TARGET libgit2)
target_link_libraries(git_ref_test PRIVATE PkgConfig::LIBGIT2)

# Tests of their own for what lacks memory, spec/torture/<name>_test.c. The one of the module's C code
# exists once for each Lua; the others need allocations that fail on demand.
function(chamvi_torture_test name source)
    add_executable(${name}_test ${PROJECT_SOURCE_DIR}/spec/torture/${source})
    target_link_libraries(${name}_test PRIVATE test_support ${ARGN})
    set_target_properties(${name}_test PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()

pkg_search_module(LUA54_LIBRARY REQUIRED IMPORTED_TARGET lua5.4 lua-5.4 lua54)
pkg_search_module(LUAJIT_LIBRARY REQUIRED IMPORTED_TARGET luajit)
chamvi_torture_test(lua_memory_lua5.4 lua_memory_test.c PkgConfig::LUA54_LIBRARY)
chamvi_torture_test(lua_memory_luajit lua_memory_test.c PkgConfig::LUAJIT_LIBRARY)
foreach(abi lua5.4 luajit)
    target_compile_definitions(lua_memory_${abi}_test PRIVATE
        CORE="$<TARGET_FILE:chamvi_core_${abi}>")
    # The module finds its Lua in the program.
    target_link_options(lua_memory_${abi}_test PRIVATE -rdynamic -Wl,--no-as-needed)
    add_dependencies(lua_memory_${abi}_test stage_${abi} chamvi_core_${abi})
endforeach()
if(TARGET chamvi_torture)
    chamvi_torture_test(host_memory host_memory_test.c)
endif()
