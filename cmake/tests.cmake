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
        TIMEOUT 180)
endforeach()

# The oracle for names of refs.
pkg_check_modules(LIBGIT2 REQUIRED IMPORTED_TARGET libgit2)
target_link_libraries(git_ref_test PRIVATE PkgConfig::LIBGIT2)
